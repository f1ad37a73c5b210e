"""What the world does by itself: radio waves and moving vehicles."""
