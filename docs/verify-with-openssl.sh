#!/bin/sh
# Checks a samebits certificate with openssl, jq and coreutils: nothing of samebits is used.
#
#   verify-with-openssl.sh X.sigstore.json KEY.pub.pem [X.evidence]
#
# On success the signed statement is printed and the exit status is 0.  KEY.pub.pem must come from the signer by a way
# that you trust; no key inside the certificate is looked at.  With the third argument the evidence files are compared
# with the digests in the statement as well.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: $0 X.sigstore.json KEY.pub.pem [X.evidence]" >&2
    exit 2
fi
bundle=$1
key=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "NOT VALID: $1" >&2
    exit 1
}

# The word "true" and not jq's exit status, which is 0 for an empty file.
media_type='.mediaType == "application/vnd.dev.sigstore.bundle.v0.3+json"'
[ "$(jq "$media_type" "$bundle" 2>"$work/out")" = true ] || fail "not a Sigstore bundle v0.3"
[ "$(jq '.dsseEnvelope.signatures | length == 1' "$bundle")" = true ] || fail "not exactly one signature"

jq -r '.dsseEnvelope.payload' "$bundle" | base64 -d >"$work/payload" || fail "the payload is not base64"
jq -r '.dsseEnvelope.signatures[0].sig' "$bundle" | base64 -d >"$work/sig" || fail "the signature is not base64"
type=$(jq -r '.dsseEnvelope.payloadType' "$bundle")

# What is signed: "DSSEv1 <bytes of type> <type> <bytes of payload> <payload>".
{
    printf 'DSSEv1 %d %s %d ' "$(printf %s "$type" | wc -c)" "$type" "$(wc -c <"$work/payload")"
    cat "$work/payload"
} >"$work/pae"

if openssl pkey -pubin -in "$key" -noout -text 2>"$work/out" | grep -qi ed25519; then
    openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/pae" -sigfile "$work/sig" >&2 || fail "the signature is not of this key"
else
    openssl dgst -sha256 -verify "$key" -signature "$work/sig" "$work/pae" >&2 || fail "the signature is not of this key"
fi
[ "$type" = "application/vnd.in-toto+json" ] || fail "signed, but not an in-toto statement"

if [ $# -eq 3 ]; then
    jq -r '.subject[] | "\(.digest.sha256)  \(.name)"' "$work/payload" >"$work/sums"
    (cd "$3" && sha256sum --check --strict "$work/sums" >&2) || fail "the evidence is not what was signed"
fi
cat "$work/payload"
