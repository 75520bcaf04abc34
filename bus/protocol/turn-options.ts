/** What a request of the OpenAI protocol asks of its turn beside messages. */
export interface TurnOptions {
  /** Offered to the model beside the manifest's own; the client runs what is called of them. */
  readonly tools: readonly RequestTool[];
  /** Null leaves it to the model. */
  readonly tool_choice: ToolChoice | null;
  /** Null leaves it to the model. */
  readonly parallel_tool_calls: boolean | null;
  /** What the answer is to be like; null leaves it to the manifest, which goes before. */
  readonly response_format: ResponseFormat | null;
  /** Where the model is to end, up to four texts. */
  readonly stop: readonly string[];
}

/** An answer that is JSON: any object, or one that fits a schema. */
export type ResponseFormat =
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly name: string;
      readonly schema: Readonly<Record<string, unknown>>;
      readonly strict: boolean | null;
    };

/** A tool that the client of a request has. */
export interface RequestTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. It is told to the model as it came and compiled nowhere. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict: boolean | null;
}

/** Which tools the first model call of a turn may or must call; `none` holds for all of its calls. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };
