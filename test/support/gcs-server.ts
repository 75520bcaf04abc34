import { generateKeyPairSync, randomUUID } from "node:crypto";
import { importSPKI, jwtVerify } from "jose";
import { lazily } from "../../bus/lazily.ts";
import {
  type BucketAnswer,
  type BucketRequest,
  type BucketServer,
  namesAfter,
  startBucketServer,
} from "./bucket-server.ts";
import type { Cleanup } from "./temp.ts";

export const gcsBucket = "svc-objects";
const email = "svc@project.iam.gserviceaccount.com";
const scope = "https://www.googleapis.com/auth/devstorage.read_write";

/** A stand-in for Google Cloud Storage and its service for tokens. */
export interface GcsServer extends BucketServer {
  /** The JSON of a service account's key that the stand-in accepts. */
  readonly credentials: string;
  /** Tokens that requests may carry. */
  readonly tokens: Set<string>;
}

const keyPair = lazily(() =>
  generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }),
);

/** Starts a stand-in that checks the JWT of each request for a token, and the token of every other request. */
export async function startGcsServer(atEnd: Cleanup): Promise<GcsServer> {
  const { privateKey, publicKey } = keyPair();
  const tokens = new Set<string>();
  const server = await startBucketServer(
    atEnd,
    async (served, request) => {
      if (request.url.pathname === "/token") return token(served, request, publicKey, tokens);
      const [, sent = ""] = /^Bearer (.+)$/.exec(request.headers.authorization ?? "") ?? [];
      if (!tokens.has(sent)) {
        served.refusals.push("the token is unknown");
        return failure(401, "authError");
      }
      return answer(served, request);
    },
    (status) => failure(status, status === 503 ? "backendError" : "refused"),
  );
  const key = { type: "service_account", client_email: email, private_key: privateKey, private_key_id: "key-1" };
  const credentials = JSON.stringify({ ...key, token_uri: `${server.url}/token` });
  return Object.assign(server, { credentials, tokens });
}

async function token(
  { url, refusals }: BucketServer,
  { method, body }: BucketRequest,
  publicKey: string,
  tokens: Set<string>,
): Promise<BucketAnswer> {
  const form = new URLSearchParams(body.toString());
  try {
    if (method !== "POST" || form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer")
      throw new Error("the grant is unknown");
    const options = { issuer: email, audience: `${url}/token`, algorithms: ["RS256"] };
    const { payload } = await jwtVerify(form.get("assertion") ?? "", await importSPKI(publicKey, "RS256"), options);
    const { iat = 0, exp = 0 } = payload;
    if (payload.scope !== scope || exp - iat > 3_600) throw new Error("the claims are not those of Google");
  } catch (error) {
    refusals.push((error as Error).message);
    return { status: 400, body: '{"error":"invalid_grant"}' };
  }
  const fresh = randomUUID();
  tokens.add(fresh);
  return { status: 200, body: JSON.stringify({ access_token: fresh, expires_in: 3_599, token_type: "Bearer" }) };
}

function answer({ objects }: BucketServer, { method, url, body }: BucketRequest): BucketAnswer {
  const { pathname, searchParams: query } = url;
  const base = `/storage/v1/b/${gcsBucket}/o`;
  if (method === "POST" && pathname === `/upload${base}` && query.get("uploadType") === "media") {
    const name = query.get("name") ?? "";
    if (query.get("ifGenerationMatch") === "0" && objects.has(name)) return failure(412, "conditionNotMet");
    objects.set(name, body);
    return { status: 200, body: JSON.stringify({ name }) };
  }
  if (method === "GET" && pathname === base) return list(objects, query);
  if (!pathname.startsWith(`${base}/`)) return failure(404, "notFound", "The specified bucket does not exist.");
  const name = decodeURIComponent(pathname.slice(base.length + 1));
  const found = objects.get(name);
  if (found === undefined) return failure(404, "notFound", `No such object: ${gcsBucket}/${name}`);
  if (method === "GET" && query.get("alt") === "media") return { status: 200, body: found };
  if (method !== "DELETE") return failure(405, "methodNotAllowed");
  objects.delete(name);
  return { status: 204 };
}

function list(objects: ReadonlyMap<string, Buffer>, query: URLSearchParams): BucketAnswer {
  const from = query.get("startOffset") ?? "";
  const after = query.get("pageToken");
  const limit = Number(query.get("maxResults") ?? 1_000);
  const isAfter = (name: string) => (after === null ? name >= from : name > after);
  const { names, isEnd } = namesAfter(objects, query.get("prefix") ?? "", isAfter, limit);
  const items = names.map((name) => ({ name }));
  return {
    status: 200,
    // An empty list has no items at all.
    body: JSON.stringify({ ...(items.length > 0 && { items }), ...(!isEnd && { nextPageToken: names.at(-1) }) }),
  };
}

function failure(status: number, reason: string, message = "no"): BucketAnswer {
  return { status, body: JSON.stringify({ error: { code: status, message, errors: [{ reason }] } }) };
}
