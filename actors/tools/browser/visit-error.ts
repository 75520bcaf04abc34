import type { ToolErrorCode } from "../tool.ts";

/** A visit has no result; the message is for the model. */
export class VisitError extends Error {
  override readonly name = "VisitError";
  readonly code: ToolErrorCode;

  constructor(code: ToolErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
