import { timingSafeEqual } from "node:crypto";
import { Type } from "typebox";
import { text } from "../../governance/settings/setting.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import { channelsPlugin } from "../../plugins/channels/channels-plugin.ts";
import { type Platform, type PlatformClient, PlatformFailure } from "../../plugins/channels/platform.ts";
import { slack } from "../../plugins/channels/slack.ts";

// A second chat service: letters in rooms, carried by pigeons. It proves that a service needs no change of the plugin.

const url = text("PIGEON_URL", "http://127.0.0.1:9/", "Where pigeons fly to.");

/** Flies to the loft and returns the answer. */
type Fly = (method: string, path: string, body: object) => Promise<{ readonly id?: string }>;

function client(fly: Fly): PlatformClient {
  return {
    async post(channel, thread, said) {
      return (await fly("POST", "letters", { room: channel, thread, said })).id ?? "";
    },
    async edit(channel, id, said) {
      await fly("PUT", `letters/${id}`, { room: channel, said });
    },
    download: () => Promise.reject(new PlatformFailure("pigeons carry no files", null, true)),
  };
}

const pigeon: Platform = {
  name: "pigeon",
  settings: [url],
  headers: Type.Object({ "x-pigeon-ring": Type.Optional(Type.String({ description: "The ring of the pigeon." })) }),
  textMax: 40,
  shown: (said) => said,
  read({ headers, body, keys }) {
    const ring = Buffer.from(headers["x-pigeon-ring"] ?? "");
    const isRinged = keys.some((key) => ring.length === key.length && timingSafeEqual(ring, Buffer.from(key)));
    if (!isRinged) return null;
    const { id, room, thread = id, person, said } = JSON.parse(body.toString("utf8")) as Record<string, string>;
    if (id === undefined || room === undefined || person === undefined) return { kind: "ignored" };
    const message = { id, channel: room, thread: String(thread), user: person, text: said ?? "" };
    return { kind: "message", event_id: id, message: { ...message, isAddressed: true, files: [], quoted: [] } };
  },
  async open(token, { tenant_id }, { settings, outgoing }) {
    const rules = { tenantId: tenant_id, policy: "operator", allowHosts: [], credentials: [], onEvent() {} } as const;
    return client(async (method, path, body) => {
      const headers = { authorization: token, "content-type": "application/json" };
      const request = { method, url: settingOf(settings, url) + path, headers, body: JSON.stringify(body) };
      const answer = await outgoing.whole(rules, request, 10_000).catch(() => {
        throw new PlatformFailure("the pigeon did not return", null, false);
      });
      if (answer.status !== 200) throw new PlatformFailure(`status ${answer.status}`, null, answer.status === 404);
      return JSON.parse(answer.bytes.toString("utf8")) as { id?: string };
    });
  },
};

export const plugin = channelsPlugin([slack, pigeon]);
