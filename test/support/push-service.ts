import { createECDH, type ECDH, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import ece from "http_ece";
import { importJWK, jwtVerify } from "jose";
import { modelTestCertificate } from "./certificate.ts";
import { eventually } from "./eventually.ts";
import type { Env } from "./server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// A push service with its browsers. As real ones do, it takes only requests whose VAPID token verifies with the key that the browser
// subscribed with (RFC 8292), and its browsers decrypt what arrives (RFC 8291).

/** One message as it arrived. */
export interface ReceivedPush {
  readonly ttl: number;
  readonly urgency: string;
  readonly at: number;
  /** Everything that the service can read. */
  readonly sealed: string;
  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  readonly payload: any;
}

/** A browser that has subscribed. */
export interface Browser {
  /** The body of POST /push/subscriptions. */
  readonly subscription: {
    readonly endpoint: string;
    readonly keys: { readonly p256dh: string; readonly auth: string };
  };
  readonly received: ReceivedPush[];
  /** Requests, with those that were not taken. */
  requests: number;
  /** Status of later answers; 0 for none. */
  status: number;
  /** Resolves with the message of this number, counted from 0. */
  nth(index: number): Promise<ReceivedPush>;
}

export interface PushService {
  /** The settings of a server that reaches the service. */
  readonly env: Env;
  browser(): Browser;
}

/** Decrypts a message for a browser. */
export function decryptPush(message: Buffer, privateKey: ECDH, auth: string): string {
  return ece.decrypt(message, { version: "aes128gcm", privateKey, authSecret: auth }).toString("utf8");
}

/** Starts a push service that knows the public key and the contact of the server. The host has the certificate of the tests. */
export async function pushService(
  atEnd: Cleanup,
  { publicKey, subject }: { readonly publicKey: string; readonly subject: string },
  host: "model.test" | "push.test" = "model.test",
): Promise<PushService> {
  const browsers = new Map<string, { browser: Browser; key: ECDH }>();
  const server = createServer({ ...modelTestCertificate }, (request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const found = browsers.get(request.url ?? "");
      if (found === undefined) return void response.writeHead(404).end();
      const { browser, key } = found;
      browser.requests++;
      const { authorization = "", ttl = "", urgency = "" } = request.headers;
      const body = Buffer.concat(pieces);
      void verifyVapid(authorization, publicKey, subject, host).then(
        () => {
          if (browser.status >= 200 && browser.status < 300) {
            const payload = JSON.parse(decryptPush(body, key, browser.subscription.keys.auth));
            const sealed = JSON.stringify(request.headers) + body.toString("latin1");
            browser.received.push({ ttl: Number(ttl), urgency: String(urgency), at: Date.now(), sealed, payload });
          }
          if (browser.status !== 0) response.writeHead(browser.status).end("an answer that nobody reads");
        },
        () => response.writeHead(403).end(),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()));
  const ca = join(tempDir(atEnd), "ca.pem");
  writeFileSync(ca, modelTestCertificate.cert);
  const { port } = server.address() as AddressInfo;
  return {
    env: {
      SVC_TEST_RESOLVE: JSON.stringify({ [host]: `127.0.0.1:${port}` }),
      SVC_EGRESS_CA_FILE: ca,
      SVC_PUSH_ALLOWED_HOSTS: `${host},fcm.googleapis.com,*.push.apple.com`,
    },
    browser() {
      const key = createECDH("prime256v1");
      const p256dh = key.generateKeys("base64url");
      const path = `/wpush/${randomBytes(16).toString("hex")}`;
      const browser: Browser = {
        subscription: {
          endpoint: `https://${host}${path}`,
          keys: { p256dh, auth: randomBytes(16).toString("base64url") },
        },
        received: [],
        requests: 0,
        status: 201,
        nth: (index) => eventually(`push ${index} of a browser`, async () => browser.received[index]),
      };
      browsers.set(path, { browser, key });
      return browser;
    },
  };
}

/** Rejects unless the header carries a token of this key for this service, for at most a day. */
async function verifyVapid(authorization: string, publicKey: string, subject: string, host: string): Promise<void> {
  const [, token = "", key = ""] = /^vapid t=([\w.-]+), ?k=([\w-]+)$/.exec(authorization) ?? [];
  if (key !== publicKey) throw new Error("the key is not that of the subscription");
  const point = Buffer.from(key, "base64url");
  const [x, y] = [point.subarray(1, 33).toString("base64url"), point.subarray(33).toString("base64url")];
  const { payload } = await jwtVerify(token, await importJWK({ kty: "EC", crv: "P-256", x, y }, "ES256"), {
    ...{ algorithms: ["ES256"], audience: `https://${host}`, requiredClaims: ["exp"], subject },
  });
  if ((payload.exp ?? 0) - Date.now() / 1000 > 86_400) throw new Error("the token lasts longer than a day");
}
