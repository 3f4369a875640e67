#!/usr/bin/env bash
# What `make run` does once everything is built.
set -u
exec "$1" --help
