#!/usr/bin/env bash
# Print the address of the Debian archive that this machine's apt sources name; fails where there is none.
set -euo pipefail
found="$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 2>/dev/null | sort -u | head -n 1)"
if [ -z "$found" ]; then  # the lists were never fetched
    apt-get update -qq >&2
    found="$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | sort -u | head -n 1)"
fi
[ -n "$found" ] || { echo "no Debian archive in the apt sources" >&2; exit 1; }
echo "${found%/}"
