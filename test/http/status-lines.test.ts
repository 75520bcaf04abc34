import assert from "node:assert/strict";
import { STATUS_CODES } from "node:http";
import { test } from "node:test";
import { statusLine } from "../../http/exchange/status-lines.ts";

test("status lines are Node's, and of a status that nobody knows the number alone", () => {
  const statuses = Object.keys(STATUS_CODES).map(Number);

  const lines = [...statuses, 299].map(statusLine);

  assert.deepEqual(lines, [...statuses.map((status) => `${status} ${STATUS_CODES[status]}`), "299"]);
});
