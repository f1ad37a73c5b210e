#!/usr/bin/env bash
# Make the base image of all others with debootstrap, for machines that reach no image registry.
# Needs root, debootstrap and a running Docker engine; takes half a minute.
#
#   sudo containers/base/build.sh [TAG] [MIRROR]    the mirror is that of this machine's apt sources otherwise
set -euo pipefail
tag="${1:-debian:bookworm-slim}"
mirror="${2:-$("$(dirname "$0")/archive.sh")}"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase --include=ca-certificates bookworm "$folder/root" "$mirror"
# As in Debian's own image: what images install later leaves no packages, indices, manuals and translations behind.
cat >"$folder/root/etc/apt/apt.conf.d/99-lean" <<'END'
APT::Keep-Downloaded-Packages "false";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
END
cat >"$folder/root/etc/dpkg/dpkg.cfg.d/99-lean" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
END
rm -rf "$folder"/root/var/cache/apt/* "$folder"/root/var/lib/apt/lists/* "$folder"/root/var/log/*
find "$folder"/root/usr/share/doc -type f ! -name copyright -delete
find "$folder"/root/usr/share/doc -depth -mindepth 1 -type d -empty -delete
rm -rf "$folder"/root/usr/share/{man,locale}/*
chmod 755 "$folder/root"
tar -C "$folder/root" --numeric-owner -c . | docker import --change 'CMD ["bash"]' - "$tag"
