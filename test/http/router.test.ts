import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { text } from "../../http/exchange/reply.ts";
import { type Method, type Route, route } from "../../http/route.ts";
import { Router } from "../../http/router.ts";
import { runs } from "../support/effort.ts";

function routeAt(method: Method, path: string): Route {
  return route({
    method,
    path,
    summary: "A route of this test.",
    tag: "Test",
    access: "public",
    reply: { description: "Nothing." },
    handle: () => text("", "text/plain"),
  });
}

const history = routeAt("GET", "/history/{thread_id}");
const sessions = routeAt("GET", "/sessions");
const session = routeAt("GET", "/sessions/{thread_id}");
const search = routeAt("GET", "/sessions/search");
const put = routeAt("PUT", "/things/{name}");
const canary = routeAt("POST", "/things/{name}/canary");
const router = new Router([history, sessions, session, search, put, canary]);

describe("Router", () => {
  test("finds a route with the decoded values of its parameters", () => {
    const found = router.find("GET", "/history/caf%C3%A9%20au%20lait");

    assert.deepEqual(found, { kind: "route", route: history, params: { thread_id: "café au lait" } });
  });

  test("prefers a literal segment to a parameter", () => {
    const found = router.find("GET", "/sessions/search");

    assert.equal(found.kind === "route" && found.route, search);
  });

  test("accepts a slash at the end of a collection, and of nothing else", () => {
    const collection = router.find("GET", "/sessions/");
    const item = router.find("GET", "/sessions/a/");

    assert.equal(collection.kind === "route" && collection.route, sessions);
    assert.equal(item.kind, "unknown");
  });

  test("finds the route with a parameter if the literal one lacks the method", () => {
    const name = routeAt("POST", "/sessions/name");
    const both = new Router([session, name]);

    const post = both.find("POST", "/sessions/name");
    const get = both.find("GET", "/sessions/name");
    const other = both.find("PUT", "/sessions/name");

    assert.deepEqual(post, { kind: "route", route: name, params: {} });
    assert.deepEqual(get, { kind: "route", route: session, params: { thread_id: "name" } });
    assert.deepEqual(other.kind === "other_methods" && other.allow, ["GET", "HEAD", "OPTIONS", "POST"]);
  });

  test("answers HEAD if there is GET, and lists the other methods of a path", () => {
    const head = router.find("HEAD", "/sessions");
    const post = router.find("POST", "/sessions");
    const get = router.find("GET", "/things/a/canary");

    assert.equal(head.kind, "route");
    assert.deepEqual(post.kind === "other_methods" && post.allow, ["GET", "HEAD", "OPTIONS"]);
    assert.deepEqual(get.kind === "other_methods" && get.allow, ["OPTIONS", "POST"]);
  });

  for (const path of [
    "/sessions//search",
    "//sessions",
    "/sessions/../history/a",
    "/sessions/%2e%2e/history/a",
    "/sessions/.%2E/a",
    "/sessions/.",
    "/sessions/a%2Fb",
    "/sessions/a%5cb",
    "/sessions/a\\b",
    "/sessions/a%00b",
    "/things/a%252fb",
    "/things/a%2541",
    "/things/%252e%252e/canary",
    "/sessions/a%0ab",
    "/sessions/%",
    "/sessions/%zz",
    "/sessions/%c3",
    `/sessions/${"a".repeat(4096)}`,
  ]) {
    test(`refuses ${path.slice(0, 40)}, which others might read differently`, () => {
      assert.equal(router.find("GET", path).kind, "ambiguous");
    });
  }

  for (const path of ["/Sessions", "/SESSIONS/search", "/%73essions", "/session", "/", "", "*", "/sessions/a/b"]) {
    test(`finds nothing at ${JSON.stringify(path)}`, () => {
      assert.equal(router.find("GET", path).kind, "unknown");
    });
  }

  test("gives a handler exactly the encoded text, or no route at all", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: 60 }), (value) => {
        fc.pre(value.isWellFormed());
        const found = router.find("GET", `/history/${encodeURIComponent(value)}`);

        if (found.kind === "route") assert.deepEqual([found.route, found.params], [history, { thread_id: value }]);
        else assert.match(found.kind, /^(ambiguous|unknown)$/);
      }),
      { numRuns: runs(500) },
    );
  });

  test("reads a hostile path as one segment or not at all", () => {
    const piece = fc.constantFrom(
      "a",
      "..",
      ".",
      "/",
      "\\",
      "%",
      "%2f",
      "%2e",
      "%25",
      "%00",
      "search",
      ";",
      "?",
      "#",
      " ",
      "é",
    );
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 8 }), (pieces) => {
        const found = router.find("GET", `/history/${pieces.join("")}`);

        if (found.kind !== "route") return;
        const value = found.params.thread_id ?? "";
        assert.equal(found.route, history);
        assert.ok(!/[/\\\0]/.test(value) && value !== "." && value !== "..", value);
      }),
      { numRuns: runs(1000) },
    );
  });

  test("leaves an encoded escape unchanged in the id of a thread", () => {
    for (const [segment, id] of [
      ["a%2541", "a%41"],
      ["%252e%252e", "%2e%2e"],
      ["a%252Fb", "a%2Fb"],
      ["%252500", "%2500"],
    ]) {
      const found = router.find("GET", `/sessions/${segment}`);

      assert.deepEqual(found, { kind: "route", route: session, params: { thread_id: id } });
    }
  });

  test("refuses a contradictory table", () => {
    assert.throws(() => new Router([sessions, sessions]), /declared twice/);
    assert.throws(() => new Router([put, routeAt("GET", "/things/{id}/canary")]), /another name/);
  });
});
