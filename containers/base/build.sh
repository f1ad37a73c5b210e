#!/usr/bin/env bash
# Make the base image of all others with debootstrap, for machines that reach no image registry.
# Needs root, debootstrap and a running Docker engine; takes half a minute.
#
#   sudo containers/base/build.sh [TAG] [MIRROR]
set -euo pipefail
tag="${1:-debian:bookworm-slim}"
mirror="${2:-http://deb.debian.org/debian}"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase --include=ca-certificates bookworm "$folder/root" "$mirror"
rm -rf "$folder"/root/var/cache/apt/archives/*.deb "$folder"/root/var/lib/apt/lists/*
rm -rf "$folder"/root/usr/share/{doc,man,locale}/*
tar -C "$folder/root" --numeric-owner -c . | docker import --change 'CMD ["bash"]' - "$tag"
