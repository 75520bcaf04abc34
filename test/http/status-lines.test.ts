import assert from "node:assert/strict";
import { STATUS_CODES } from "node:http";
import { test } from "node:test";
import { statusLine } from "../../http/exchange/status-lines.ts";

test("status lines equal Node's, and an unknown status is only its number", () => {
  const statuses = Object.keys(STATUS_CODES).map(Number);

  const lines = [...statuses, 299].map(statusLine);

  assert.deepEqual(lines, [...statuses.map((status) => `${status} ${STATUS_CODES[status]}`), "299"]);
});
