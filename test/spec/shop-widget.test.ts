// The widget of a storefront in a browser, on pages of the brand and of others.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Frame, Page } from "playwright-core";
import { startChat } from "../support/chat.ts";
import { findChromium } from "../support/chromium.ts";
import { type ConsoleBrowser, findProblems, startConsoleBrowser } from "../support/console-browser.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { has } from "../support/needs.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ operator: { tenant_id: "mall", scopes: ["*"] } });
const seller = { auth: { inbound: { allow_anonymous: true } }, tools: ["catalog_search"] };
const evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';

// biome-ignore lint/suspicious/noExplicitAny: the types of a page are not those of the tests
const clientWidth = (element: any) => element.clientWidth;

describe("the widget", () => {
  const atEnd = cleanup();
  const executable = findChromium();
  let server: TestServer;
  let mock: MockModel;
  let browser: ConsoleBrowser;
  before(async () => {
    if (executable === null) return;
    ({ server, mock } = await startChat(atEnd, {
      models: ["seller"],
      manifests: { seller },
      env: { ...env, SVC_COMMERCE_ENABLED: "true", SVC_COMMERCE_BASE_MANIFEST: "seller", SVC_SHOP_RATE_LIMIT: "0" },
    }));
    await seedBrand(server, keys.operator, {
      ...{ id: "shoes", name: "Shoes", domains: ["shoes.example"] },
      identity: { greeting: evil, starters: ["Which boots?"], theme: { primary_color: "#aa2200" } },
    });
    await seedBrand(server, keys.operator, { id: "hats", name: "Hats", domains: ["shoes.example"].slice(1) });
    // The page is public and the server is on this machine, which browsers refuse otherwise.
    browser = await startConsoleBrowser(executable, atEnd, ["--disable-features=LocalNetworkAccessChecks"]);
  });

  /** Opens a page of a site with the loader for each storefront. */
  async function open(site: string, storefronts: readonly string[], more = ""): Promise<Page> {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const scripts = storefronts.map(
      (name) => `<script src="${server.url}/widget/loader.js" data-storefront="${name}"></script>`,
    );
    const body = `<!doctype html><html lang="en"><title>Shop</title><body><main>A shop</main>${scripts.join("")}${more}</body></html>`;
    await page.route(`${site}/`, (route) => route.fulfill({ contentType: "text/html", body }));
    await page.goto(`${site}/`);
    atEnd.after(() => context.close());
    return page;
  }

  const frameOf = (page: Page, storefront: string): Promise<Frame> =>
    eventually("the frame", async () =>
      page.frames().find((frame) => frame.url().includes(`storefront=${storefront}`)),
    );
  const widthOf = (page: Page, at = 0): Promise<number> => page.locator("iframe").nth(at).evaluate(clientWidth);

  test("SHOP-008 a shopper opens the chat on the brand's page, asks, and continues after a reload", async (t) => {
    if (!has(t, executable !== null, "needs Chromium: apt-get install chromium")) return;
    mock.answer("seller", { text: [`Hello ${evil}`, " there."] });
    const page = await open("https://shoes.example", ["shoes"]);
    const frame = await frameOf(page, "shoes");
    await frame.click("#launcher");
    await frame.click("text=Which boots?");
    await frame.waitForSelector("text=there.");

    assert.equal(await widthOf(page), 400);
    assert.equal(await frame.textContent("#title"), "Shoes");
    assert.ok((await frame.textContent("#log"))?.includes(evil), "texts are shown as texts");
    assert.equal(await frame.evaluate("window.pwned"), undefined);
    assert.deepEqual(await page.context().cookies(), []);
    const problems = await findProblems(frame as unknown as Page);
    assert.deepEqual(problems, []);

    await page.reload();
    const again = await frameOf(page, "shoes");
    await again.click("#launcher");
    await again.fill("#input", "And in red?");
    await again.press("#input", "Enter");
    await again.waitForSelector("text=there.");
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /Which boots\?/);
    await again.click("#close");
    await eventually("closed", async () => (await widthOf(page)) === 72);
  });

  test("another site's page cannot show the frame of a brand with domains", async (t) => {
    if (!has(t, executable !== null, "needs Chromium: apt-get install chromium")) return;
    const page = await open("https://evil.example", ["shoes"]);
    await page.waitForTimeout(1_000);

    const shown = page.frames().filter((frame) => frame.url().includes("/widget/frame"));
    for (const frame of shown) assert.equal(await frame.$("#launcher"), null);
  });

  test("messages of other frames and other origins open nothing, and two widgets are apart", async (t) => {
    if (!has(t, executable !== null, "needs Chromium: apt-get install chromium")) return;
    const forged = `<iframe srcdoc="<script>parent.postMessage({type:'svc:open'},'*')</script>"></iframe>`;
    const page = await open("https://shoes.example", ["shoes", "hats"], forged);
    const [shoes, hats] = [await frameOf(page, "shoes"), await frameOf(page, "hats")];
    await shoes.waitForSelector("#launcher");
    await page.evaluate("window.postMessage({ type: 'svc:open' }, '*')");
    await page.waitForTimeout(300);
    const widths = async () => [await widthOf(page, 0), await widthOf(page, 1)];
    assert.deepEqual(await widths(), [72, 72]);

    await hats.click("#launcher");

    await eventually("one is open", async () => (await widths()).join() === "72,400");
  });
});
