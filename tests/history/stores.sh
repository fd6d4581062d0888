#!/usr/bin/env bash
# Histories of key-value stores: four threads call a store of each index on each engine, in processes that are killed
# again and again; then some order of the calls has to explain the results of all of them, for each key.
#
# usage: stores.sh [--minutes N], as rounds.sh
exec "$(dirname "$0")/rounds.sh" store_histories "$@"
