"""Maps of OpenStreetMap and tables of base stations as scenarios."""
