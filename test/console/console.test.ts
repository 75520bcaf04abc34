// The console in a browser, against a real server, a mock model and stand-ins of GitHub and Google.
import { describe } from "node:test";
import { hardTests } from "./hard.ts";
import { screenTests } from "./screens.ts";
import { sharedConsole } from "./shared.ts";
import { shopTests } from "./shop.ts";
import { signInTests } from "./sign-in.ts";

describe("the console", () => {
  const shared = sharedConsole();
  describe("in a sign-in", () => signInTests(shared));
  describe("on each screen", () => screenTests(shared));
  describe("on the screens of the shop", () => shopTests(shared));
  describe("under hard conditions", () => hardTests(shared));
});
