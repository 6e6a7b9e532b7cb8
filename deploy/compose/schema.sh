#!/bin/sh
# Temporal's two databases: made where they are missing, and brought up to this release's schema.
# temporal-sql-tool finds PostgreSQL by SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN.
set -eu

prepare() {
    temporal-sql-tool --database "$1" create-database
    temporal-sql-tool --database "$1" setup-schema --version 0.0
    temporal-sql-tool --database "$1" update-schema \
        --schema-dir "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
