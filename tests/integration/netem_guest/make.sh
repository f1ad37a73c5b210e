#!/bin/sh
# Make what the test of netem needs: `make.sh FOLDER`, then COSIM_QEMU=FOLDER. Needs root, debootstrap, cpio, apt.
# FOLDER gets vmlinuz and base.cpio: a minimal Debian with Python, ip and tc, and the modules of traffic control.
set -e
mkdir -p "$1"
cd "$1"
name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
[ -d kernel ] || { apt-get download "$name"; dpkg-deb -x "$name"_*.deb kernel; }
[ -d root ] || debootstrap --variant=minbase \
    --include=python3-minimal,libpython3-stdlib,iproute2,iputils-ping,kmod bookworm root.part
[ -d root ] || mv root.part root
cp kernel/boot/vmlinuz-* vmlinuz
modules=$(echo "$PWD"/kernel/lib/modules/*/kernel)
mkdir -p root/modules
for module in net/sched/sch_netem net/sched/sch_htb net/sched/cls_u32 drivers/net/veth; do
    cp "$modules/$module.ko" root/modules/
done
cd root
rm -rf var/cache var/lib/apt var/lib/dpkg usr/share/doc usr/share/locale usr/share/man usr/share/perl* \
    usr/share/zoneinfo usr/share/i18n usr/lib/*/perl* usr/lib/locale usr/lib/systemd usr/lib/udev usr/lib/*/gconv
find . | cpio -o -H newc --quiet > ../base.cpio
