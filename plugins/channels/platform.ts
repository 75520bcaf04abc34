import type { TSchema } from "typebox";
import type { Setting } from "../../governance/settings/setting.ts";
import type { PluginActorServices, PluginDeps } from "../plugin.ts";
import type { ChannelEntry } from "./channel-settings.ts";

/** A chat service: how its requests are read, and how messages are sent to it. */
export interface Platform {
  /** Its name in paths, thread ids and subjects, and the scheme of its principals. */
  readonly name: string;
  readonly settings: readonly Setting<unknown>[];
  /** The headers that it signs with, for the API reference. */
  readonly headers: TSchema;
  /** Max characters of one message. */
  readonly textMax: number;
  /** Returns the event of a signed request; null if none of the keys has signed it, or long ago. */
  read(request: SignedRequest, entry: ChannelEntry): PlatformEvent | null;
  /** Returns a text in the markup of the service, which shows it literally. */
  shown(text: string): string;
  /** Opens a connection with the token of an entry. Loads the library of the service with the first call. */
  open(token: string, entry: ChannelEntry, services: PluginDeps & PluginActorServices): Promise<PlatformClient>;
}

/** A request that claims to come from the service. */
export interface SignedRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
  readonly keys: readonly string[];
  /** Epoch milliseconds. */
  readonly now: number;
}

/** An event of a service. Its id is the same in each repetition. */
export type PlatformEvent =
  | { readonly kind: "answer"; readonly body: Readonly<Record<string, string>> }
  | { readonly kind: "ignored" }
  | { readonly kind: "message"; readonly event_id: string; readonly message: ChannelMessage }
  | { readonly kind: "edited"; readonly event_id: string; readonly message: ChannelMessage }
  | { readonly kind: "deleted"; readonly event_id: string; readonly channel: string; readonly id: string };

/** A message of a person in a channel. */
export interface ChannelMessage {
  readonly channel: string;
  /** The conversation in the channel: the id of its first message. */
  readonly thread: string;
  readonly id: string;
  readonly user: string;
  /** The text of the person. */
  readonly text: string;
  /** True if it names the bot or is sent to it alone; others count only in a conversation that the bot is in. */
  readonly isAddressed: boolean;
  readonly files: readonly ChannelFile[];
  /** Texts of others that the message quotes. */
  readonly quoted: readonly string[];
}

/** A file of a message. */
export interface ChannelFile {
  readonly name: string;
  readonly media_type: string;
  readonly bytes: number;
  /** Empty if the bot cannot read it. */
  readonly url: string;
}

/** A connection to a service. Its calls throw `PlatformFailure`. */
export interface PlatformClient {
  /** Posts a message in a conversation. Returns its id. */
  post(channel: string, thread: string, text: string): Promise<string>;
  /** Replaces the text of a message. */
  edit(channel: string, id: string, text: string): Promise<void>;
  /** Returns the bytes of a file. */
  download(file: ChannelFile, bytesMax: number): Promise<Uint8Array>;
}

/** A call that the service refused or did not answer. */
export class PlatformFailure extends Error {
  /** The pause that the service asks for, in milliseconds; null for none. */
  readonly retryAfterMs: number | null;
  /** True if a repetition would fail too. */
  readonly isFinal: boolean;

  constructor(reason: string, retryAfterMs: number | null, isFinal: boolean) {
    super(reason);
    this.retryAfterMs = retryAfterMs;
    this.isFinal = isFinal;
  }
}
