#!/bin/sh
# The Containerfile's steps on a bare root, and commands in it as a pod has them; in a mount namespace of its own:
#   unshare --mount --pid --fork sh bare_root.sh ROOT CONTEXT PACKAGES STORE COMMANDS
# ROOT      an empty folder: becomes a Debian with nothing but /usr (of this machine, read-only) and what the image
#           adds to it; DEBOOTSTRAP=1 makes it by debootstrap instead, from the network
# CONTEXT   the build context, as .containerignore leaves it
# PACKAGES  a folder of installed packages that stands for what pip would download
# STORE     a folder that the commands may write, as a volume is
# COMMANDS  a script, run by an arbitrary user of group 0 with a read-only root and home
set -eu
root=$1 context=$2 packages=$3 store=$4 commands=$5

if [ "${DEBOOTSTRAP:-0}" = 1 ]; then
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root"
else
  mount -t tmpfs -o mode=755 tmpfs "$root"
  mkdir "$root/usr" "$root/etc" "$root/proc" "$root/dev" "$root/tmp" "$root/opt"
  mount --bind /usr "$root/usr"
  mount -o remount,bind,ro "$root/usr"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
  echo "root:x:0:0:root:/:/bin/sh" >"$root/etc/passwd"
  echo "root:x:0:" >"$root/etc/group"
  cp /etc/ld.so.cache "$root/etc/" 2>/dev/null || true
fi
mkdir -p "$root/src" "$root/packages" "$root/store" "$root/home/questloop" "$root/sys"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$context" "$root/src"
mount --bind "$packages" "$root/packages"
mount -o remount,bind,ro "$root/packages"

# RUN and COPY of both stages
chroot "$root" /bin/sh -euc '
  export PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/packages
  cd /src
  TORCH= PIP_ARGS="--no-deps --no-build-isolation" PYTHON=/usr/bin/python3 sh container/build.sh /opt/questloop
  echo /packages >"$(echo /opt/questloop/lib/python3*/site-packages)/packages.pth"
  cp -r scripts /opt/questloop/scripts
  chgrp -R 0 /home/questloop && chmod -R g=u /home/questloop
'

# What a pod has: volumes at /tmp and the store, nothing else that can be written
mount --bind "$store" "$root/store"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cp "$commands" "$root/commands.sh"
umount "$root/src"
mount -o remount,ro "$root" 2>/dev/null || mount --bind -o ro "$root" "$root"
exec chroot --userspec=1000710000:0 --groups=0 "$root" /bin/sh -eu /commands.sh
