import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, errorTable, SvcError } from "../../bus/errors.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

test("every code has a status of its class and a sentence that explains it", () => {
  for (const code of codes) {
    const { status, help } = errorTable[code];
    assert.match(code, /^[a-z]+(_[a-z0-9]+)*$/);
    assert.ok(status >= 400 && status < 600, code);
    assert.match(help, /\.$/, code);
    assert.equal(new SvcError(code).status, status);
  }
});

test("a refusal crosses a thread whole: code, subject and details", () => {
  for (const code of codes) {
    const error = new SvcError(code, { subject: "s", detail: [{ loc: ["a", 1] }], reason: "r", retryAfterSeconds: 3 });

    const received = SvcError.fromWire(structuredClone(error.toWire()));

    assert.ok(received instanceof SvcError);
    assert.deepEqual(received, error);
    assert.equal(received.message, `${code}:s`);
  }
});

test("a code of a plugin crosses a thread with its status, text and retryability", () => {
  const full = { code: "notes_full", status: 409, retryable: true, help: "There are too many notes." } as const;
  const error = new SvcError(full, { subject: "s" });

  const received = SvcError.from(SvcError.fromWire(structuredClone(error.toWire())));

  assert.deepEqual(received, error);
  assert.deepEqual([received.message, received.code, received.status], ["notes_full:s", "notes_full", 409]);
  assert.deepEqual([received.retryable, received.sentence], [true, full.help]);
});

test("an unknown code, and a plugin's code without a status, become internal_error", () => {
  const unknown = [
    "made_up",
    { code: "made_up" },
    { code: "made_up", status: 200, help: "x" },
  ] as unknown[] as ErrorCode[];

  const found = unknown.map((code) => SvcError.from(new SvcError(code)).code);

  assert.deepEqual(found, ["internal_error", "internal_error", "internal_error"]);
});

test("another error becomes internal_error, with its text and cause kept local", () => {
  const cause = new Error("password=secret");

  const error = SvcError.from(cause);
  const received = SvcError.fromWire(structuredClone(error.toWire()));

  assert.equal(error.code, "internal_error");
  assert.equal(error.cause, cause);
  assert.equal(received.cause, undefined);
  assert.equal(JSON.stringify([received, received.message]).includes("secret"), false);
  const refusal = new SvcError("conflict");
  assert.equal(SvcError.from(refusal), refusal);
});

test("404, 405, 415, 502 and eight more codes have a fixed sentence", () => {
  const more = [
    "host_not_allowed",
    "messages_or_template_required",
    "model_not_configured",
    "name_mismatch",
    "thread_too_large",
    "too_many_tools",
    "unresolved_secret",
    "unsupported_part",
  ];
  const spoken = codes.filter((code) => new SvcError(code).sentence !== null);

  const wanted = codes.filter((code) => [404, 405, 415, 502].includes(errorTable[code].status) || more.includes(code));
  assert.deepEqual(spoken, wanted);
  for (const code of spoken) assert.equal(new SvcError(code).sentence, errorTable[code].help);
  assert.equal(new SvcError("not_found", { message: "There is none." }).sentence, "There is none.");
  assert.equal(new SvcError("conflict", { message: "Try again." }).sentence, "Try again.");
});
