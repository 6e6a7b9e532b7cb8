#!/bin/sh
# What deploy/compose.yaml needs and no repository holds: passwords, the inbox's secret, and a
# certificate of its own for https://localhost:8443. What is there already stays.
#
#   sh deploy/prepare.sh [NAME [GROUP,…]]     you, and the groups that you decide for
set -eu
cd "$(dirname "$0")"
person=${1:-$(id -un)}
groups=${2:-operators}

random() { openssl rand -hex 16; }

# The folder is closed to others; what is mounted from it is read by users of the containers' own.
umask 077
mkdir -p secret
umask 022

if [ ! -e secret/gate.key ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout secret/gate.key -out secret/gate.crt 2>/dev/null
    chmod 644 secret/gate.key
fi
if [ ! -e secret/people ]; then
    password=$(random)
    printf '%s:%s\n' "$person" "$(openssl passwd -6 "$password")" >secret/people
    printf '"%s" "%s";\n' "$person" "$groups" >secret/groups
    echo "https://localhost:8443 will let in $person with the password $password"
fi
if [ ! -e .env ]; then
    (
        umask 077
        cat >.env <<END
POSTGRES_PASSWORD=$(random)
HOLDFAST_INBOX_SECRET=$(random)$(random)
GRAFANA_PASSWORD=$(random)
# Prometheus, Tempo and Grafana (http://127.0.0.1:3000, admin): take the two # away.
#COMPOSE_PROFILES=observe
#TRACES_TO=otlp_http/tempo
END
    )
fi
# It is newer than the rest.
grep -q ^HOLDFAST_VIEWERS_KEY= .env || echo "HOLDFAST_VIEWERS_KEY=$(random)$(random)" >>.env
echo "deploy/.env and deploy/secret hold what compose.yaml needs"
