#!/bin/sh
# Fit the sources, which are written for the newest release, to an older one: sh pin.sh 4.2.0
# A folder of older/ has the files that are others up to that release, unless a later one has them.
set -eu
sources=src/main/java/org/apache/kafka/raft
change() {
    find "$sources" -name '*.java' -exec sed -i "$1" {} +
}
older_than() { # Is $release older than $1?
    [ "$release" != "$1" ] && [ "$(printf '%s\n' "$1" "$release" | sort -V | head -1)" = "$release" ]
}
release=$1
if older_than 4.4.0; then # Messages carry their promises.
    cp older/4.3/*.java "$sources"
    change 's/common\.utils\.internals\./common.utils./'
fi
if older_than 4.3.0; then
    change 's/common\.record\.internal\./common.record./'
    change 's/implements RaftLog /implements ReplicatedLog /'
    # Its reads have no limit of their own: the overload without one is called.
    change 's/@Override public LogFetchInfo read(/public LogFetchInfo read(/'
fi
if older_than 4.1.0; then
    cp older/4.0/*.java "$sources"
    change '/^import org\.apache\.kafka\.server\.common\.OffsetAndEpoch;$/d' # It is in our package.
    # Its followers do not compare epochs: the overload without one is called.
    change 's/@Override public LogAppendInfo appendAsFollower(/public LogAppendInfo appendAsFollower(/'
fi
if older_than 4.0.0; then
    cp older/3.9/*.java "$sources"
fi
