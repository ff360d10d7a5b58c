// node verify.js X.sigstore.json KEY.pub.pem
//
// Prints the signed statement and exits with 0, or prints the verifier's own error code and exits with 1.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const { bundleFromJSON } = require("@sigstore/bundle");
const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");

const [bundlePath, keyPath] = process.argv.slice(2);

// Whatever hint the bundle gives: the verifier's key and no other, without an end of validity.
const anyHint = () => ({ publicKey: crypto.createPublicKey(fs.readFileSync(keyPath)), validFor: () => true });
const nobody = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
const verifier = new Verifier(toTrustMaterial(nobody, anyHint), {
  ctlogThreshold: 0,
  tlogThreshold: 0,
  timestampThreshold: 0,
});

try {
  const bundle = bundleFromJSON(JSON.parse(fs.readFileSync(bundlePath, "utf8")));
  verifier.verify(toSignedEntity(bundle));
  if (bundle.content.dsseEnvelope.payloadType !== "application/vnd.in-toto+json") {
    throw Object.assign(new Error("signed, but not an in-toto statement"), { code: "PAYLOAD_TYPE" });
  }
  process.stdout.write(bundle.content.dsseEnvelope.payload);
} catch (error) {
  process.stderr.write(`${error.code ?? error.name}: ${error.message}\n`);
  process.exitCode = 1;
}
