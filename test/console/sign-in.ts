// Sign-in in the console: the browser goes to GitHub or Google and comes back with a token, or with the reason of a refusal.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findProblems } from "../support/console-browser.ts";
import { evil, type SharedConsole } from "./shared.ts";

const octocat = { id: 1, login: "octocat", orgs: { acme: 100 } };
const both = { id: 2, login: "both", orgs: { acme: 100, globex: 200 } };
const stranger = { id: 3, login: "stranger" };
const ann = { sub: "77", email: "ann@example.com" };

export function signInTests(shared: SharedConsole): void {
  const { keys, ready, open } = shared;

  for (const [name, person, subject] of [
    ["GitHub", octocat, "github:1"],
    ["Google", ann, "google:77"],
  ] as const)
    test(`a person signs in with ${name}, and the token stays in the tab only`, async (t) => {
      if (!ready(t)) return;
      shared.github.state.who = person;
      const page = await open();
      await page.getByRole("link", { name: `Sign in with ${name}` }).waitFor();
      assert.deepEqual(await findProblems(page), []);

      await page.getByRole("link", { name: `Sign in with ${name}` }).click();
      await page.getByRole("link", { name: "Chat" }).waitFor();

      const [token, local, cookie] = (await page.evaluate(
        "[sessionStorage.getItem('svc.key'), JSON.stringify(localStorage), document.cookie]",
      )) as string[];
      const { json } = await shared.server.get("/auth/whoami", { key: token ?? "" });
      assert.equal(json.sub, subject);
      assert.deepEqual([local, cookie], ["{}", ""]);
      assert.doesNotMatch(page.url(), /svc_login|octocat|ann/);
      assert.deepEqual(await page.context().cookies(), [], "the exchange removes the cookie");
      await page.reload();
      await page.getByRole("link", { name: "Chat" }).waitFor();
      await page.close();
    });

  for (const [name, person, sentence] of [
    ["is not a member", stranger, "No organisation of this server admits the account. Account: stranger."],
    ["cancels", null, "The sign-in was cancelled at the provider."],
  ] as const)
    test(`a person who ${name} sees why, and can sign in again`, async (t) => {
      if (!ready(t)) return;
      shared.github.state.who = person;
      const page = await open();

      await page.getByRole("link", { name: "Sign in with GitHub" }).click();

      await page.getByText(sentence).waitFor();
      assert.doesNotMatch(page.url(), /svc_login/);
      assert.deepEqual(await findProblems(page), []);
      shared.github.state.who = octocat;
      await page.getByRole("link", { name: "Sign in with GitHub" }).click();
      await page.getByRole("link", { name: "Chat" }).waitFor();
      await page.close();
    });

  test("a person whom several tenants admit names one of them", async (t) => {
    if (!ready(t)) return;
    shared.github.state.who = both;
    const page = await open();
    await page.getByRole("link", { name: "Sign in with GitHub" }).click();

    await page.getByLabel("Tenant").fill("globex");
    assert.deepEqual(await findProblems(page), []);
    await page.getByRole("link", { name: "Sign in with GitHub" }).click();
    await page.getByRole("link", { name: "Chat" }).waitFor();

    const token = String(await page.evaluate("sessionStorage.getItem('svc.key')"));
    const { json } = await shared.server.get("/auth/whoami", { key: token });
    assert.equal(json.tenant_id, "globex");
    await page.close();
  });

  test("a link with a forged end shows no text of its own, and does not end the session of a tab", async (t) => {
    if (!ready(t)) return;
    const forged = `#${new URLSearchParams({ svc_login_error: evil, login: evil })}`;
    const page = await open({ at: forged });
    await page.getByText("The sign-in failed. Sign in again.", { exact: true }).waitFor();
    assert.equal(await page.evaluate("window.pwned"), undefined);
    await page.close();

    for (const at of [forged, "#svc_login=ok&login=octocat"]) {
      const signedIn = await open({ key: keys.admin, at });
      await signedIn.getByRole("link", { name: "Chat" }).waitFor();
      assert.equal(await signedIn.evaluate("sessionStorage.getItem('svc.key')"), keys.admin);
      assert.doesNotMatch(signedIn.url(), /svc_login/);
      await signedIn.close();
    }
  });

  test("an end without its cookie asks to sign in again", async (t) => {
    if (!ready(t)) return;
    const page = await open({ at: "#svc_login=ok&login=octocat" });

    await page.getByText("The sign-in is over or was completed in another tab.").waitFor();
    await page.close();
  });
}
