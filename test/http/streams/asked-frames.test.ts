import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { frame, textFrames } from "../../../bus/frames/frames.ts";
import { AskedFrames } from "../../../http/streams/asked-frames.ts";

const questions = [
  { name: "approval_required", data: { approval_id: "a", tool_call_id: "c", args: {} } },
  { name: "tool_request", data: { id: "c", name: "pick", args: { of: 'data: {"event":"tool_request"' } } },
  { name: "ui_request", data: { request_id: "r", prompt: "Which?" } },
];

describe("questions on a stream", () => {
  for (const asked of questions) {
    const text = frame(asked.name, asked.data, 7);

    test(`${asked.name} is sent once: heard before its lookup, after it, or twice`, () => {
      const heardFirst = new AskedFrames(true);
      assert.equal(heardFirst.heard(text), text);
      assert.equal(heardFirst.open([asked], 9), "");

      const lookedUpFirst = new AskedFrames(true);
      assert.equal(lookedUpFirst.open([asked], 9), frame(asked.name, asked.data, 9));
      assert.equal(lookedUpFirst.heard(text), "");

      const around = [textFrames("before"), text, textFrames("tool_request after"), text].join("");
      assert.equal(
        new AskedFrames(true).heard(around),
        [textFrames("before"), text, textFrames("tool_request after")].join(""),
      );
    });

    test(`another ${asked.name} is sent too; approvals need the scope to read them`, () => {
      const [field = ""] = Object.keys(asked.data);
      const other = { ...asked, data: { ...asked.data, [field]: "other" } };
      const told = new AskedFrames(false).open([asked, other], 9);

      assert.equal(told.split("\n\n").length - 1, asked.name === "approval_required" ? 0 : 2);
      const heard = new AskedFrames(false).heard(text);
      assert.equal(heard, asked.name === "approval_required" ? "" : text);
    });
  }
});
