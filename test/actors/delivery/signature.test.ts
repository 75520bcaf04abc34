import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { signingKey } from "../../../governance/settings/webhook-endpoints.ts";
import { signatureOf } from "../../../governance/webhook-signature.ts";
import { runs } from "../../support/effort.ts";

const key = (secret: string): Buffer => signingKey(secret) as Buffer;

test("HOOK-008 a signature equals that of the standardwebhooks package", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 64 }),
      fc.stringMatching(/^[a-z0-9_-]{1,80}$/),
      fc.integer({ min: 0, max: 4_000_000_000 }),
      fc.string({ unit: "grapheme", maxLength: 200 }),
      (bytes, id, seconds, body) => {
        const secret = `whsec_${Buffer.from(bytes).toString("base64")}`;

        const own = signatureOf([key(secret)], id, seconds, body);

        assert.equal(own, new Webhook(secret).sign(id, new Date(seconds * 1000), body));
      },
    ),
    { seed: 29, numRuns: runs(300) },
  );
});

test("HOOK-009 the key is the base64 after whsec_, else the bytes of the secret", () => {
  const bytes = Buffer.from("0123456789abcdef0123456789abcdef");
  const plain = "a plain sécret of 32 characters!";

  assert.deepEqual(key(`whsec_${bytes.toString("base64")}`), bytes);
  assert.deepEqual(key(plain), Buffer.from(plain, "utf8"));
  // Looks like base64, but another program encoded it.
  assert.deepEqual(key("c2VjcmV0"), Buffer.from("c2VjcmV0"));
  const own = signatureOf([key(plain)], "run_1_ops", 1_700_000_000, "{}");
  const raw = new Webhook(new TextEncoder().encode(plain), { format: "raw" });
  assert.equal(own, raw.sign("run_1_ops", new Date(1_700_000_000_000), "{}"));
});

test("HOOK-006 each secret gives one v1 value, separated by a blank", () => {
  const [older, newer] = ["whsec_b2xkZXIgc2VjcmV0", "whsec_bmV3ZXIgc2VjcmV0"];

  const both = signatureOf([key(newer), key(older)], "run_1_ops", 1, "body");

  assert.match(both, /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/);
  assert.deepEqual(both.split(" "), [
    new Webhook(newer).sign("run_1_ops", new Date(1000), "body"),
    new Webhook(older).sign("run_1_ops", new Date(1000), "body"),
  ]);
});

test("the text after whsec_ is base64, or the secret is no key", () => {
  for (const secret of ["whsec_", "whsec_***", "whsec_abc", "whsec_a b="])
    assert.equal(signingKey(secret), null, secret);
});
