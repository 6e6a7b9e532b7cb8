#!/bin/sh
# Run a command with networks, an /etc and a /run of its own, as the services of deploy/compose.yaml
# have them. As root, so that nothing of it outlasts the command:
#
#   unshare --net --mount --pid --fork --kill-child --mount-proc sh tests/deploy/own_network.sh COMMAND …
set -eu

mount -t tmpfs tmpfs /mnt
mkdir /mnt/etc /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work /etc
mount -t tmpfs tmpfs /run

ip link set lo up
ip link add host type bridge
ip address add 172.30.235.1/29 dev host
ip link set host up
printf '127.0.0.1 localhost\n172.30.235.1 postgresql temporal\n' >/etc/hosts
while read -r address name; do
    echo "$address $name" >>/etc/hosts
    ip netns add "$name"
    ip link add "$name" type veth peer name eth0 netns "$name"
    ip link set "$name" master host up
    ip -netns "$name" link set lo up
    ip -netns "$name" address add "$address/29" dev eth0
    ip -netns "$name" link set eth0 up
done <<END
172.30.235.2 gate
172.30.235.3 inbox
172.30.235.4 worker
END
exec "$@"
