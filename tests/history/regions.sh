#!/usr/bin/env bash
# Histories of regions: four threads append, write, make, drop and run groups on a few regions, in memory and on a disk,
# in processes that are killed again and again; then some order, of transactions and of the calls on each region, has to
# explain the results of all of them. Each round begins with new pools.
#
# usage: regions.sh [--minutes N], as rounds.sh
exec "$(dirname "$0")/rounds.sh" region_histories "$@"
