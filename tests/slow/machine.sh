#!/bin/sh
# A machine over this one: what is written there stays in memory, and is gone with its first process.
# Arguments: an empty folder; then paths of this machine that are to be seen there, whatever file system they are on.
# Says `pid N` and, once Debian's Ganeti is installed and the network is one of its own, `ready`.
set -eu
folder=$1
shift
mount --make-rprivate /
# Before /proc is that of the new processes, it knows this one by its number outside.
read -r pid _ </proc/self/stat
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs tmpfs run
for path; do
    mkdir -p ".$path"
    mount --rbind "$path" ".$path"
done
# Name service and mirror are this machine's, until the cable is pulled.
mount --bind /etc/resolv.conf etc/resolv.conf
# Nothing here may restart the machine below.
if [ -e proc/sysrq-trigger ]; then mount --bind /dev/null proc/sysrq-trigger; fi
echo "pid $pid"
exec chroot . /bin/sh -c '
    set -eu
    export DEBIAN_FRONTEND=noninteractive
    printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    packages="ganeti ganeti-3.0 ganeti-haskell-3.0 ganeti-htools-3.0 openssh-server"
    install() { apt-get install -qq --no-install-recommends $packages >&2; }
    install || { apt-get update -qq >&2 && install; }
    exec unshare --net --uts /bin/sh -c "echo ready; while sleep 3600; do :; done"
'
