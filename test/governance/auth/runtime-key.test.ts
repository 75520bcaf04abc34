import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { isRuntimeKey, makeRuntimeKey } from "../../../governance/auth/runtime-key.ts";

test("only a text with the checksum of its secret may be a key, so that guesses ask no store", () => {
  const { token } = makeRuntimeKey(systemEnv());
  const [, secret = "", checksum = ""] = token.split("_");
  const wrong = checksum.startsWith("0") ? "1" : "0";

  assert.equal(isRuntimeKey(token), true);
  for (const guess of [`svck_${secret}_${wrong}${checksum.slice(1)}`, `svck_${secret}`, `${token}0`, `x${token}`, ""])
    assert.equal(isRuntimeKey(guess), false, guess);
});
