#!/bin/sh
# The service `certificates` of docker-compose.yml: it makes a CA, a certificate for each broker, and
# the user admin with a password, and puts each into the volume of who needs it. What is there stays;
# `renew` makes the brokers' certificates again, which they take within ten seconds.
set -eu
umask 077

if [ "${SECURITY:-open}" != secure ]; then
    echo "the profile secure needs SECURITY=secure as well: brokers would not be secured" >&2
    exit 1
fi

hosts=localhost,127.0.0.1
case "${ADVERTISED_HOST:-localhost}" in
    localhost | 127.0.0.1) ;;
    *) hosts="$hosts,$ADVERTISED_HOST" ;;
esac

# Copy a file of the authority's: its owner sees the old one or the new one.
hand_over() {
    cp "/authority/$1" "$2/.new"
    chown 10001:0 "$2/.new"
    mv "$2/.new" "$2/$3"
}

if [ "${1:-}" = renew ]; then
    oncelog tls make --dir /authority --renew broker-1 --renew broker-2 --renew broker-3
elif [ ! -e /authority/broker-3.key ]; then
    oncelog tls make --dir /authority --force \
        --broker "broker-1=broker-1,$hosts" \
        --broker "broker-2=broker-2,$hosts" \
        --broker "broker-3=broker-3,$hosts"
fi
for number in 1 2 3; do
    hand_over "broker-$number.pem" "/issued/$number" broker.pem
    hand_over "broker-$number.key" "/issued/$number" broker.key
    hand_over ca.pem "/issued/$number" ca.pem
done

if [ ! -e /authority/admin.password ]; then
    head -c 24 /dev/urandom | base64 > /authority/admin.new
    python3 -m oncelog_broker --add-user admin --password-file /authority/admin.new
    mv /authority/admin.new /authority/admin.password
fi
hand_over ca.pem /issued/admin ca.pem
hand_over admin.password /issued/admin admin.password
