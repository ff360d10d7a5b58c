#!/usr/bin/env bash
# Certification in a container, from nothing: images/ci.sh [--twice]
#
# An engine (the machine's own, or one installed for the purpose), a base made here, the image of the row cpu, ds4-small
# certified inside without a network, its certificate verified outside.  The base stands in for the pinned one, which is
# not pulled: this proves the Dockerfile's steps, not the base's digest, and the certificate says so.
# Exit code 3: no engine can be had here; that is not a pass.
set -euo pipefail
cd "$(dirname "$0")/.."
nox=${NOX:-.venv/bin/nox}
work=$(mktemp -d /tmp/samebits-images.XXXXXX)
say() { printf '\n=== %s\n' "$*"; }

cleanup() {
  status=$?
  trap - EXIT INT TERM
  if [ -S "$work/engine/docker.sock" ]; then
    # Containers first: they hold mounts below the folder that is removed.
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force >/dev/null 2>&1 || true
  fi
  images/engine.sh stop "$work/engine" || true
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT INT TERM

say "a Docker engine"
reached=$(images/engine.sh start "$work/engine") || exit $?
eval "$reached"
docker version --format 'engine {{.Server.Version}}, client {{.Client.Version}}'

command -v mmdebstrap >/dev/null || {
  echo "no base can be made here: mmdebstrap is not installed" >&2
  exit 3
}

say "a base, from the system's own packages"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv "$release" "$work/base.tar"
docker import "$work/base.tar" local/python-base:"$release" >"$work/base.id"
rm "$work/base.tar"
base="local/python-base:$release@$(cat "$work/base.id")"
echo "$base"

say "the image of the row cpu"
$nox -s images -- cpu --base "$base" --folder "$work/images" "$@"

say "certified inside, without a network; signed and verified outside"
$nox -s certify-ds4 -- --container --images "$work/images" --runs "$work/runs" --run-id inside
# The key is the caller's own: .ci/run points XDG_CONFIG_HOME at one that nobody should believe.
$nox -s verify -- "$work/runs/inside/certificate.sigstore.json" \
  --key "${XDG_CONFIG_HOME:-$HOME/.config}/samebits/keys/default.pub.pem"
