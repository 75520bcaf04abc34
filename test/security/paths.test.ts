// Threat 7: paths that two parsers read differently. The server authenticates the path that it routes: it reads a path
// in one way or refuses it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { nameOf, pathOf, protectedRoutes, routes } from "../http/support.ts";
import { startChatProcess, turn } from "../support/chat.ts";
import { runs } from "../support/effort.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../support/raw-http.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertUnharmed } from "./support.ts";

const { env, keys } = apiKeys({
  owner: { tenant_id: "acme", scopes: ["*"] },
  weak: { tenant_id: "acme", scopes: ["other:read"] },
});

const percent = (character: string) => `%${character.charCodeAt(0).toString(16).padStart(2, "0")}`;

/** Variants of a path that some server or proxy treats as the same path or as another. */
const spellings: Readonly<Record<string, (path: string) => string>> = {
  "capital letters": (path) => path.toUpperCase(),
  "one capital letter": (path) => path.replace(/[a-z]/, (letter) => letter.toUpperCase()),
  "an encoded letter": (path) => path.replace(/[a-z]/, percent),
  "every letter encoded": (path) => path.replaceAll(/[a-z]/g, percent),
  "a letter encoded twice": (path) => path.replace(/[a-z]/, (letter) => `%25${percent(letter).slice(1)}`),
  "an encoded slash": (path) => `/${path.slice(1).replace("/", "%2F") || "%2F"}`,
  "an encoded first slash": (path) => `/%2f${path.slice(1)}`,
  "a slash more in front": (path) => `/${path}`,
  "a slash more inside": (path) => path.replace(/(?<=.)\//, "//"),
  "a slash more behind": (path) => `${path}/`,
  "two slashes more behind": (path) => `${path}//`,
  "a step here and back": (path) => `/x/..${path}`,
  "an encoded step back": (path) => `/x/%2e%2e${path}`,
  "a half encoded step back": (path) => `/x/.%2E${path}`,
  "a step back encoded twice": (path) => `/x/%252e%252e${path}`,
  "out of a public path": (path) => `/health/..${path}`,
  "out of a public path, encoded": (path) => `/.well-known/%2e%2e${path}`,
  "out of a public path with a parameter": (path) => `/.well-known/..;${path}`,
  "a dot in front": (path) => `/.${path}`,
  "a dot behind": (path) => `${path}/.`,
  "a step back behind": (path) => `${path}/x/..`,
  "a parameter": (path) => `${path};x=1`,
  "a parameter in front": (path) => `/;x=1${path}`,
  "a backslash": (path) => path.replaceAll("/", "\\"),
  "a backslash in front": (path) => `/\\${path.slice(1)}`,
  "an encoded backslash": (path) => `/%5c${path.slice(1)}`,
  "an encoded NUL behind": (path) => `${path}%00`,
  "an encoded line end behind": (path) => `${path}%0d%0a`,
  "an encoded blank behind": (path) => `${path}%20`,
  "a tab behind": (path) => `${path}%09`,
  "an encoded question mark": (path) => `${path}%3Fx=1`,
  "an encoded hash": (path) => `${path}%23`,
  "a hash": (path) => `${path}#x`,
  "a bare percent sign": (path) => `${path}%`,
  "a percent sign and no digits": (path) => `${path}%zz`,
  "a slash of two bytes": (path) => path.replaceAll("/", "%c0%af"),
  "a full-width letter": (path) => path.replace(/[a-z]/, "%ef%bd%81"),
  "a soft hyphen": (path) => path.replace(/(?<=[a-z])/, "%c2%ad"),
  "an ending": (path) => `${path}.json`,
  "an empty query": (path) => `${path}?`,
  "a query with a path": (path) => `${path}?/../../health`,
};

describe("threat 7: paths", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    ({ server } = await startChatProcess(atEnd, { models: ["mock-text"], env }));
    const { status } = await server.post("/chat", turn("agent", "hi", { thread_id: "T1" }), { key: keys.owner });
    assert.equal(status, 200);
  });

  /** Sends the path byte for byte. Returns the answer. */
  async function ask(method: string, path: string, key?: string): Promise<RawAnswer> {
    const connection = new RawConnection(server.url);
    const credential = key === undefined ? [] : [`authorization: Bearer ${key}`];
    await connection.send(
      Buffer.from(rawRequest(method, path, [...credential, "connection: close"], method === "GET" ? undefined : "{}")),
    );
    const answer = await connection.answer();
    connection.close();
    assert.ok(answer, `${method} ${path} was not answered`);
    return answer;
  }

  const refusals = [400, 404, 405, 505];

  for (const route of protectedRoutes) {
    const path = pathOf(route, "T1");
    test(`${nameOf(route)} requires authentication in every spelling`, async () => {
      for (const [what, spelling] of Object.entries(spellings)) {
        const answer = await ask(route.method, spelling(path));

        assert.ok(answer.status === 401 || refusals.includes(answer.status), `${what}: ${answer.status}`);
        assert.ok(answer.status !== 405 || !("allow" in answer.headers), `${what}: tells what there is`);
      }
    });

    if (!Array.isArray(route.access)) continue;
    test(`${nameOf(route)} requires its scope in every spelling`, async () => {
      for (const [what, spelling] of Object.entries(spellings)) {
        const answer = await ask(route.method, spelling(path), keys.weak);

        assert.ok(answer.status === 403 || refusals.includes(answer.status), `${what}: ${answer.status}`);
      }
    });
  }

  test("a spelling is the plain path or not a route", async () => {
    for (const route of routes.filter(
      ({ method, reply }) => method === "GET" && reply.contentType === "application/json",
    )) {
      const plain = await ask("GET", pathOf(route, "T1"), keys.owner);
      for (const [what, spelling] of Object.entries(spellings)) {
        const answer = await ask("GET", spelling(pathOf(route, "T1")), keys.owner);

        // A neighbour of /chat/sessions/search accepts any other word as a thread.
        const plainOnly = route.params === null && route.path !== "/chat/sessions/search";
        if (answer.status === 200 && plainOnly) assert.equal(shape(answer), shape(plain), what);
        else if (answer.status === 200)
          assert.ok(!answer.body.includes('"content":"hi"') || shape(answer) === shape(plain), what);
        // A route that needs more than its path, or a setting, is refused like its plain spelling.
        else if (![409, 422, 503].includes(answer.status) || plain.status !== answer.status)
          assert.ok(refusals.includes(answer.status), `${what} of ${route.path}: ${answer.status}`);
      }
    }
  });

  test("an answer is about the thread in the path", async () => {
    const piece = fc.oneof(
      fc.constantFrom(
        "..",
        ".",
        "%2e",
        "%2E%2e",
        "%2f",
        "/",
        "%5c",
        "\\",
        "%00",
        "%25",
        "%",
        ":",
        "acme:",
        "globex:",
        "#",
        "?",
        ";",
        "T1",
        "t1",
        "%54",
        "%c3%a9",
        "%ff",
        "*",
        "~",
        "'",
        '"',
        "%0a",
      ),
      fc.string({ unit: "grapheme-ascii", maxLength: 4 }).map(encodeURIComponent),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async (pieces) => {
        const segment = pieces.join("");
        const answer = await ask("GET", `/chat/history/${segment}`, keys.owner);

        if (answer.status !== 200) {
          assert.ok(refusals.includes(answer.status), `${segment}: ${answer.status}`);
          return;
        }
        const asked = decodeURIComponent(segment.split("?")[0]?.replace(/\/$/, "") ?? "");
        const { thread_id, messages } = JSON.parse(Buffer.from(answer.body, "latin1").toString("utf8"));
        assert.equal(thread_id, `acme:${asked}`);
        assert.equal(messages.length > 0, asked === "T1");
      }),
      { numRuns: runs(300) },
    );
  });

  test("ids are not folded: case, accents and look-alikes make different ids", async () => {
    for (const other of ["t1", "T1 ", " T1", "%EF%BC%B41", "T%CC%811", "T1%E2%80%8B", "T1.", "T1%C2%AD", "T01"]) {
      const { status, json } = await server.get(`/chat/history/${other.replaceAll(" ", "%20")}`, { key: keys.owner });

      assert.equal(status, 200, other);
      assert.deepEqual(json.messages, [], other);
    }
  });

  test("a repeated parameter is refused on every route that reads it", async () => {
    for (const route of protectedRoutes) {
      const properties = Object.keys((route.query as { properties?: object } | null)?.properties ?? {});
      for (const name of properties) {
        for (const query of [
          `${name}=1&${name}=2`,
          `${name}=1&${name}=1`,
          `${name}&${name}`,
          `${percent(name[0] as string)}${name.slice(1)}=1&${name}=2`,
        ]) {
          const answer = await ask(
            route.method,
            `${pathOf(route, route.path.includes("{turn_seq}") ? "1" : "T1")}?${query}`,
            keys.owner,
          );

          // Both protocols refuse in the form of JSON-RPC, /a2a with status 200.
          if ((route.path === "/a2a" || route.path === "/mcp") && route.method === "POST") {
            assert.match(answer.body, /"error":\{"code":-32\d\d\d,/, answer.body);
            continue;
          }
          // Refusals of /v1 have OpenAI's form.
          const isOpenAi = route.path.startsWith("/v1/");
          assert.equal(answer.status, isOpenAi ? 400 : 422, `${nameOf(route)}?${query}`);
          assert.ok(answer.body.includes(isOpenAi ? name : '"type":"repeated"'), answer.body);
        }
      }
    }
  });

  test("parameters with similar names have no effect", async () => {
    const plain = await server.get("/audit?limit=1&event_type=user_input", { key: keys.owner });
    for (const more of [
      "limit%00=500",
      "Limit=500",
      "limit[]=500",
      "limit[0]=500",
      "%20limit=500",
      "limit%20=500",
      ";limit=500",
      "__proto__=1",
      "__proto__[limit]=500",
      "constructor=1",
      "toString=1",
      "limit.=500",
    ]) {
      const { status, json } = await server.get(`/audit?limit=1&event_type=user_input&${more}`, { key: keys.owner });

      assert.equal(status, 200, more);
      assert.deepEqual(json, plain.json, more);
    }
  });

  test("paths and queries of any length are answered or refused, without side effects", async () => {
    for (const length of [2000, 3900, 4200, 20_000, 200_000]) {
      for (const path of [
        `/chat/history/${"a".repeat(length)}`,
        `/audit?cursor=${"a".repeat(length)}`,
        `/audit?${"a=1&".repeat(length / 4)}`,
        "/a".repeat(length / 2),
      ]) {
        const { status } = await ask("GET", path, keys.owner);

        assert.ok([200, 400, 404, 431].includes(status), `${path.slice(0, 20)} ${length}: ${status}`);
      }
    }
    await assertUnharmed(server);
  });
});

/** The parts of an answer that are equal for equal requests. */
function shape({ status, body }: RawAnswer): string {
  return `${status} ${body.replaceAll(/\d+(\.\d+)?/g, "0")}`;
}
