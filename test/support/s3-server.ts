import { createHash, createHmac } from "node:crypto";
import {
  type BucketAnswer,
  type BucketRequest,
  type BucketServer,
  namesAfter,
  startBucketServer,
} from "./bucket-server.ts";
import type { Cleanup } from "./temp.ts";

/** The key that the stand-in accepts, and the place of its bucket. */
export const s3Key = { id: "AKIATESTONLY00000001", secret: "s3/secret+with/odd+characters0000000000", token: "" };
export const s3Region = "eu-test-1";
export const s3Bucket = "svc-objects";
/** A request whose time differs more is refused. */
const clockMs = 15 * 60_000;

/** Starts a stand-in for S3 that checks the signature of every request (Signature Version 4). */
export async function startS3Server(atEnd: Cleanup, key = s3Key): Promise<BucketServer> {
  return startBucketServer(
    atEnd,
    (server, request) => {
      const problem = signatureProblem(request, key);
      if (problem !== null) {
        server.refusals.push(problem);
        return failure(403, "SignatureDoesNotMatch");
      }
      return answer(server, request);
    },
    (status) => failure(status, status === 503 ? "SlowDown" : "Refused"),
  );
}

function answer({ objects }: BucketServer, { method, url, headers, body }: BucketRequest): BucketAnswer {
  const [, bucket = "", ...rest] = decodeURIComponent(url.pathname).split("/");
  if (bucket !== s3Bucket) return failure(404, "NoSuchBucket");
  const name = rest.join("/");
  if (name === "") return list(objects, url.searchParams);
  const found = objects.get(name);
  switch (method) {
    case "GET":
      return found === undefined ? failure(404, "NoSuchKey") : { status: 200, body: found };
    case "PUT":
      if (headers["if-none-match"] === "*" && found !== undefined) return failure(412, "PreconditionFailed");
      objects.set(name, body);
      return { status: 200, headers: { etag: '"x"' } };
    case "DELETE":
      objects.delete(name);
      return { status: 204 };
    default:
      return failure(405, "MethodNotAllowed");
  }
}

function list(objects: ReadonlyMap<string, Buffer>, query: URLSearchParams): BucketAnswer {
  const after = query.get("start-after") ?? "";
  const limit = Math.min(Number(query.get("max-keys") ?? 1_000), 1_000);
  const { names, isEnd } = namesAfter(objects, query.get("prefix") ?? "", (name) => name > after, limit);
  const contents = names.map((name) => `<Contents><Key>${encodeURIComponent(name)}</Key></Contents>`).join("");
  return {
    status: 200,
    headers: { "content-type": "application/xml" },
    body: `<?xml version="1.0"?><ListBucketResult><IsTruncated>${!isEnd}</IsTruncated>${contents}</ListBucketResult>`,
  };
}

/** A real error repeats the id of the key and the signed text. */
function failure(status: number, code: string): BucketAnswer {
  const body = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message><AWSAccessKeyId>${s3Key.id}</AWSAccessKeyId></Error>`;
  return { status, headers: { "content-type": "application/xml" }, body };
}

/** Returns why a request is not signed with the key; null if it is. */
function signatureProblem({ method, url, headers, body }: BucketRequest, key: typeof s3Key): string | null {
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(.+)$/;
  const [, id = "", day = "", region = "", names = "", signature = ""] = form.exec(headers.authorization ?? "") ?? [];
  if (id !== key.id) return `the key is ${id === "" ? "missing" : "unknown"}`;
  if (region !== s3Region) return `the region is ${region}`;
  if (key.token !== "" && headers["x-amz-security-token"] !== key.token) return "the session token is missing";
  const digest = String(headers["x-amz-content-sha256"]);
  if (digest !== sha256(body)) return "the digest is not that of the body";
  for (const needed of ["host", "x-amz-content-sha256", "x-amz-date"])
    if (!names.split(";").includes(needed)) return `${needed} is not signed`;
  const time = String(headers["x-amz-date"]);
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(time) ?? [];
  const [year, month, date, hour, minute, second] = parts.map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (!(Math.abs(Date.UTC(year, month - 1, date, hour, minute, second) - Date.now()) < clockMs))
    return "the time is off";
  const query = url.search
    .slice(1)
    .split("&")
    .filter((pair) => pair !== "")
    .sort()
    .join("&");
  const signed = names.split(";").map((name) => `${name}:${String(headers[name]).trim()}\n`);
  const canonical = [method, url.pathname, query, signed.join(""), names, digest].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n");
  const signingKey = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(
    (from, part) => createHmac("sha256", from).update(part).digest(),
    `AWS4${key.secret}`,
  );
  const expected = createHmac("sha256", signingKey).update(text).digest("hex");
  return signature === expected ? null : "the signature differs";
}

function sha256(data: string | Buffer): string {
  return createHash("sha256").update(data).digest("hex");
}
