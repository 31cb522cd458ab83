#!/bin/sh
# A Ganeti cluster of the virtual nodes node1 to node$1 on a machine of its own, below the folder $2; node1 is the master.
set -eu
nodes=$1 root=$2
hostname host.example
ip link set lo up
ip link add vc0 type veth peer name vc1
ip link set vc0 up
ip link set vc1 up
{
    echo 127.0.0.1 localhost
    echo 10.98.7.1 cluster
    for number in $(seq "$nodes"); do echo "10.98.7.$((9 + number)) node$number"; done
} >/etc/hosts
# Nodes are added over SSH.
mkdir -p /root/.ssh /run/sshd
chmod 700 /root/.ssh
rm -f /root/.ssh/*
ssh-keygen -q -t rsa -b 2048 -N '' -f /root/.ssh/id_rsa
cp /root/.ssh/id_rsa.pub /root/.ssh/authorized_keys
ssh-keygen -A
/usr/sbin/sshd
mkdir -p "$root"
/usr/lib/ganeti/tools/vcluster-setup -E -c "$nodes" -i 1 -p 10.98.7 -n vc0 "$root"
cd "$root"
smallest=disk-size=0,cpu-count=1,disk-count=0,memory-size=1,nic-count=0,spindle-use=0
largest=disk-size=1048576,cpu-count=8,disk-count=16,memory-size=32768,nic-count=8,spindle-use=12
node1/cmd gnt-cluster init --no-etc-hosts --no-ssh-init --master-netdev=lo --enabled-disk-templates=diskless \
    --enabled-hypervisors=fake "--ipolicy-bounds-specs=min:$smallest/max:$largest" cluster
for number in $(seq 2 "$nodes"); do node1/cmd gnt-node add --no-ssh-key-check "node$number"; done
