#!/bin/sh
# Fit the sources, which are written for the newest release, to an older one: sh pin.sh 4.2.0
set -eu
change() {
    find src -name '*.java' -exec sed -i "$1" {} +
}
older_than() { # Is $release older than $1?
    [ "$release" != "$1" ] && [ "$(printf '%s\n' "$1" "$release" | sort -V | head -1)" = "$release" ]
}
release=$1
if older_than 4.4.0; then
    change 's/common\.utils\.internals\./common.utils./'
fi
if older_than 4.3.0; then
    change 's/common\.record\.internal\./common.record./'
fi
if older_than 4.0.0; then # It has no such module.
    sed -i '/<dependency>/{:more;N;/<\/dependency>/!bmore;/kafka-share-coordinator/d}' pom.xml
fi
