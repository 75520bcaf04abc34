import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { copiedHeaders, readHead } from "../../../http/exchange/request-head.ts";

/** A head as the server's parser passes it. */
function headOf(headers: Readonly<Record<string, string>>, method = "post") {
  return readHead(
    {
      getMethod: () => method,
      getUrl: () => "/chat",
      getQuery: () => undefined,
      forEach(take) {
        for (const [name, value] of Object.entries(headers)) take(name, value);
      },
    },
    copiedHeaders(""),
  );
}

describe("readHead", () => {
  for (const coding of ["chunked", "Chunked", "CHUNKED"]) {
    test(`accepts the coding ${coding}`, () => assert.equal(headOf({ "transfer-encoding": coding }).fault, null));
  }

  for (const coding of ["chun\u212aed", "chunked\u00a0", "\u00a0chunked", "chunkedchunked", "chunked\n"]) {
    test(`refuses the coding ${JSON.stringify(coding)}`, () => {
      const { fault, endUnknown } = headOf({ "transfer-encoding": coding });

      assert.deepEqual(
        [fault?.code, fault?.details],
        ["invalid_header", { detail: "transfer-encoding is not chunked" }],
      );
      assert.equal(endUnknown, true);
    });
  }
});
