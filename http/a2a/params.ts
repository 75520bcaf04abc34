import type { Static, TSchema } from "typebox";
import { isA2aContext } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ClientMessage } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import type { TaskFilter } from "../../storage/tables/a2a-tasks.ts";
import { imageTypes } from "../../storage/tables/files.ts";
import { nullable } from "../schemas/common.ts";
import { validate } from "../validate.ts";
import { type RpcCall, RpcError, rpcCodes } from "./rpc.ts";

// Params of the calls in both generations of the wire. Unknown fields are ignored, as the protocol asks.

const open = { additionalProperties: true };
const Text = Type.String();
const Optional = <S extends TSchema>(schema: S) => Type.Optional(nullable(schema));
const Metadata = Optional(Type.Object({ manifest: Optional(Text) }, open));
const HistoryLength = Optional(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }));
const Modes = Optional(Type.Array(Text, { maxItems: 64 }));
const partsMax = 100;

/** The configuration of a call; the fields that end in a push configuration or in a wait have other names in each generation. */
const configuration = <F extends Record<string, TSchema>>(own: F) =>
  Optional(Type.Object({ acceptedOutputModes: Modes, historyLength: HistoryLength, ...own }, open));
const Parts = <S extends TSchema>(part: S) => Type.Array(part, { minItems: 1, maxItems: partsMax });

/** A sent message, with one content for each part. */
const SendParams = {
  "1.0": Type.Object(
    {
      message: Type.Object(
        {
          messageId: Type.String({ minLength: 1, maxLength: 256 }),
          contextId: Optional(Text),
          taskId: Optional(Text),
          role: Type.Literal("ROLE_USER"),
          parts: Parts(
            Type.Object(
              {
                text: Optional(Text),
                raw: Optional(Text),
                url: Optional(Text),
                data: Type.Optional(Type.Unknown()),
                mediaType: Optional(Text),
              },
              open,
            ),
          ),
          metadata: Metadata,
        },
        open,
      ),
      configuration: configuration({
        taskPushNotificationConfig: Type.Optional(Type.Unknown()),
        returnImmediately: Optional(Type.Boolean()),
      }),
      metadata: Metadata,
    },
    open,
  ),
  "0.3": Type.Object(
    {
      message: Optional(
        Type.Object(
          {
            contextId: Optional(Text),
            taskId: Optional(Text),
            role: Optional(Type.Literal("user")),
            parts: Parts(
              Type.Object(
                {
                  kind: Optional(Type.Enum(["text", "file", "data"])),
                  text: Optional(Text),
                  content: Optional(Text),
                  file: Optional(
                    Type.Object({ bytes: Optional(Text), uri: Optional(Text), mimeType: Optional(Text) }, open),
                  ),
                },
                open,
              ),
            ),
            metadata: Metadata,
          },
          open,
        ),
      ),
      text: Optional(Text),
      taskId: Optional(Text),
      manifest: Optional(Text),
      configuration: configuration({
        pushNotificationConfig: Type.Optional(Type.Unknown()),
        blocking: Optional(Type.Boolean()),
      }),
      metadata: Metadata,
    },
    open,
  ),
};
const TaskParams = Type.Object({ id: Text, historyLength: HistoryLength }, open);
const OlderTaskParams = Type.Object({ id: Optional(Text), taskId: Optional(Text), historyLength: HistoryLength }, open);
const pageSizeDefault = 50;
const states = ["UNSPECIFIED", "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED"];
const ListParams = Type.Object(
  {
    contextId: Optional(Text),
    status: Optional(Type.Enum([...states, "AUTH_REQUIRED"].map((state) => `TASK_STATE_${state}`))),
    pageSize: Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    pageToken: Optional(Text),
    historyLength: HistoryLength,
    statusTimestampAfter: Optional(Text),
    includeArtifacts: Optional(Type.Boolean()),
  },
  open,
);
const CardParams = Type.Object({ manifest: Optional(Text), metadata: Metadata }, open);

/** A sent message. */
export interface SentMessage {
  /** Null for the default manifest. */
  readonly manifest: string | null;
  /** Null for a new context. */
  readonly contextId: string | null;
  /** The task that the message is for; null for a new task. */
  readonly taskId: string | null;
  readonly content: readonly ContentPart[];
  /** Null for the default. */
  readonly historyLength: number | null;
  /** False if the caller reads the task later. */
  readonly waits: boolean;
}

/** A part of a message, in the form of the OpenAI protocol. */
export type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

/** The task that a call is about. */
export interface NamedTask {
  readonly id: string;
  readonly historyLength: number | null;
}

/** The tasks that a call lists. */
export interface ListedTasks extends Omit<TaskFilter, "owner"> {
  readonly pageSize: number;
  /** Null for the first page. */
  readonly cursor: string | null;
  readonly historyLength: number;
  readonly includeArtifacts: boolean;
}

/** Reads the params of a sent message. Throws an RpcError, and refuses with invalid_request. */
export function readSent({ version, params }: Pick<RpcCall, "version" | "params">): SentMessage {
  return version === "1.0" ? readNewer(params) : readOlder(params);
}

/** Reads the params of a call about one task. Refuses with invalid_request. */
export function readNamed({ version, params }: Pick<RpcCall, "version" | "params">): NamedTask {
  if (version === "1.0") {
    const { id, historyLength = null } = checked<typeof TaskParams>(TaskParams, params);
    return { id, historyLength };
  }
  const { id, taskId, historyLength = null } = checked<typeof OlderTaskParams>(OlderTaskParams, params);
  const named = id ?? taskId;
  if (named === null || named === undefined) throw invalid("id", "id is required");
  return { id: named, historyLength };
}

/** Reads the params of a list of tasks. Refuses with invalid_request. */
export function readListed({ params }: Pick<RpcCall, "params">): ListedTasks {
  const { contextId, status, pageSize, pageToken, historyLength, statusTimestampAfter, includeArtifacts } = checked<
    typeof ListParams
  >(ListParams, params);
  const since = given(statusTimestampAfter);
  const sinceMs = since === null ? 0 : Date.parse(since);
  if (Number.isNaN(sinceMs)) throw invalid("statusTimestampAfter", "must be a time in the form of ISO 8601");
  const state = given(status);
  return {
    context: given(contextId) ?? "",
    state: state === null || state === "TASK_STATE_UNSPECIFIED" ? "" : stateOf(state),
    since: sinceMs,
    pageSize: pageSize ?? pageSizeDefault,
    cursor: given(pageToken),
    historyLength: historyLength ?? 0,
    includeArtifacts: includeArtifacts === true,
  };
}

/** Returns a state of version 1.0 in the words of version 0.3. */
function stateOf(state: string): string {
  return state.replace("TASK_STATE_", "").replace("_", "-").toLowerCase();
}

/** Reads the manifest of a call for a card; null for the default. Refuses with invalid_request. */
export function readCardParams({ params }: Pick<RpcCall, "params">): string | null {
  const { manifest, metadata } = checked<typeof CardParams>(CardParams, params);
  return given(manifest) ?? given(metadata?.manifest);
}

function readNewer(params: RpcCall["params"]): SentMessage {
  const { message, configuration, metadata } = checked<(typeof SendParams)["1.0"]>(SendParams["1.0"], params);
  refusePush(configuration?.taskPushNotificationConfig);
  return {
    ...commonOf(message, configuration, metadata),
    content: message.parts.map((part, at) => {
      const set = [part.text, part.raw, part.url, part.data].filter((value) => value !== undefined && value !== null);
      if (set.length !== 1) throw invalid(`message.parts.${at}`, "must have exactly one of text, raw, url and data");
      if (typeof part.text === "string") return { type: "text", text: part.text };
      if (typeof part.url === "string") throw byReference(at);
      if (typeof part.raw === "string") return imageOf(part.raw, given(part.mediaType), at, "1.0");
      throw structured();
    }),
    waits: configuration?.returnImmediately !== true,
  };
}

/** Reads the fields that both generations have. */
function commonOf(
  message: Pick<Static<(typeof SendParams)["1.0"]>["message"], "contextId" | "taskId" | "metadata"> | null | undefined,
  configuration: { acceptedOutputModes?: string[] | null; historyLength?: number | null } | null | undefined,
  metadata: Static<typeof Metadata> | undefined,
): Pick<SentMessage, "manifest" | "contextId" | "taskId" | "historyLength"> {
  admitModes(configuration?.acceptedOutputModes);
  return {
    manifest: given(metadata?.manifest) ?? given(message?.metadata?.manifest),
    contextId: contextOf(message?.contextId),
    taskId: given(message?.taskId),
    historyLength: configuration?.historyLength ?? null,
  };
}

function readOlder(params: RpcCall["params"]): SentMessage {
  const sent = checked<(typeof SendParams)["0.3"]>(SendParams["0.3"], params);
  const { message, configuration, metadata } = sent;
  refusePush(configuration?.pushNotificationConfig);
  const common = commonOf(message, configuration, metadata);
  const parts = message?.parts ?? (typeof sent.text === "string" ? [{ text: sent.text }] : []);
  if (parts.length === 0) throw invalid("message", "message is required");
  return {
    ...common,
    manifest: given(sent.manifest) ?? common.manifest,
    taskId: common.taskId ?? given(sent.taskId),
    content: parts.map((part, at): ContentPart => {
      const { kind, text, content, file } = part as (typeof parts)[number] & {
        readonly kind?: string | null;
        readonly content?: string | null;
        readonly file?: {
          readonly bytes?: string | null;
          readonly uri?: string | null;
          readonly mimeType?: string | null;
        } | null;
      };
      if (kind === "data") throw structured();
      if (kind === "file" || (file !== undefined && file !== null)) {
        if (typeof file?.bytes !== "string") throw byReference(at);
        return imageOf(file.bytes, given(file.mimeType), at, "0.3");
      }
      const said = text ?? content;
      if (typeof said !== "string") throw invalid(`message.parts.${at}`, "must have a text");
      return { type: "text", text: said };
    }),
    waits: configuration?.blocking !== false,
  };
}

/** Returns the messages of a turn. */
export function messagesOf({ content }: Pick<SentMessage, "content">): ClientMessage[] {
  return [{ role: "user", content }];
}

/** Returns the text of a message without other parts; null if it has some. */
export function plainText({ content }: Pick<SentMessage, "content">): string | null {
  const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === content.length ? texts.join("\n") : null;
}

function imageOf(bytes: string, mediaType: string | null, at: number, version: RpcCall["version"]): ContentPart {
  const type = (mediaType ?? "").toLowerCase();
  if (!(imageTypes as readonly string[]).includes(type)) {
    const message = `This agent accepts text and images of the types ${imageTypes.join(", ")}.`;
    throw new RpcError(version === "1.0" ? rpcCodes.contentTypeNotSupported : rpcCodes.invalidParams, message);
  }
  if (bytes === "" || !/^[A-Za-z0-9+/]*={0,2}$/.test(bytes) || bytes.length % 4 !== 0)
    throw invalid(`message.parts.${at}`, "must be canonical base64");
  return { type: "image_url", image_url: { url: `data:${type};base64,${bytes}` } };
}

function byReference(at: number): SvcError {
  return invalid(`message.parts.${at}`, "must contain the bytes of the file: files at a URL are not read");
}

function structured(): RpcError {
  return new RpcError(
    rpcCodes.contentTypeNotSupported,
    "This agent accepts no structured data; send JSON as a text part.",
  );
}

function refusePush(config: unknown): void {
  if (config !== undefined && config !== null)
    throw new RpcError(rpcCodes.pushNotSupported, "This agent sends no push notifications.");
}

/** The answer is a text: a caller that accepts other types only cannot use it. */
function admitModes(modes: readonly string[] | null | undefined): void {
  if (!modes || modes.length === 0 || modes.some((mode) => textModes.has(mode.toLowerCase().split(";")[0] ?? "")))
    return;
  throw new RpcError(rpcCodes.contentTypeNotSupported, "The answers of this agent are of the type text/plain.");
}

const textModes: ReadonlySet<string> = new Set(["text/plain", "text/*", "*/*", "text"]);

function contextOf(id: string | null | undefined): string | null {
  const contextId = given(id);
  if (contextId !== null && !isA2aContext(contextId))
    throw invalid("message.contextId", "must have at most 128 letters, digits and signs of . _ ~ -");
  return contextId;
}

/** Returns null for an absent value. Protobuf's JSON has no difference between an absent and an empty text. */
function given(value: string | null | undefined): string | null {
  return value === undefined || value === null || value === "" ? null : value;
}

function checked<S extends TSchema>(schema: S, params: RpcCall["params"]) {
  return validate(schema, params, "body") as Static<S>;
}

function invalid(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", {
    detail: [
      { loc: ["body", ...field.split(".")], msg: msg.startsWith(field) ? msg : `${field} ${msg}`, type: "value_error" },
    ],
  });
}
