// spec.image_tools: images of the conversation and of the workspace, good ones and hostile ones.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import sharp from "sharp";
import { calls, shown, startChat, turn } from "../support/chat.ts";
import { pngThatClaims, png as smallPng, svg } from "../support/image-bytes.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

// sharp sets it, and a test leaves the environment unchanged.
delete process.env.VIPSHOME;

const { env, keys } = apiKeys({
  ann: { tenant_id: "acme", sub: "ann", scopes: ["*"] },
  bob: { tenant_id: "globex", sub: "bob", scopes: ["*"] },
});
const ops = ["list", "info", "resize", "crop", "rotate", "convert", "thumbnail"];
const tools = (more: object = {}) => ops.map((op) => ({ name: op, op, ...more }));
const model = { id: "eyes" };

type Format = "gif" | "jpeg" | "png" | "webp";

/** An image of 300 × 200 pixels whose left half is red. */
function picture(format: Format, width = 300, height = 200): Promise<Buffer> {
  const red = { create: { width: width / 2, height, channels: 3, background: "red" } } as const;
  return sharp({ create: { width, height, channels: 3, background: "blue" } })
    .composite([{ input: red, left: 0, top: 0 }])
    .toFormat(format)
    .toBuffer();
}

describe("image tools", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      routes: {
        eyes: { provider: "openai", model: "eyes", modalities: ["text", "image"], price: { input: 1, output: 1 } },
      },
      manifests: {
        agent: { model, image_tools: tools() },
        files: { model, image_tools: tools({ allow_path: true }), workspace: { scope: "tenant" } },
      },
      env: { ...env, SVC_WORKSPACE_ROOT: root },
    }));
  });

  async function upload(bytes: Buffer, media_type: string, key = keys.ann): Promise<string> {
    const { json, text } = await server.post(
      "/files",
      { data: bytes.toString("base64"), media_type, filename: "a\nb.png" },
      { key },
    );
    assert.ok(json.file_id, text);
    return json.file_id;
  }

  interface Called {
    /** The text that the model got. */
    readonly text: string;
    /** The image that it got; null for none. */
    readonly image: Buffer | null;
  }

  let threads = 0;
  /** Runs one turn with these files attached, whose model makes one call. */
  async function called(
    tool: string,
    args: object,
    { manifest = "agent", files = [], thread_id = `t${threads++}` }: Partial<Sent> = {},
  ): Promise<Called> {
    let hasCalled = false;
    mock.answer("eyes", () => {
      if (hasCalled) return { text: "done" };
      hasCalled = true;
      return calls([tool, args]);
    });
    const attachments = files.map((id) => ({ url: `svc-file://${id}`, media_type: "image/png" }));
    const messages = [{ role: "user", content: "go", ...(files.length > 0 && { attachments }) }];
    const { status, text } = await server.post("/chat", turn(manifest, "go", { thread_id, messages }), {
      key: keys.ann,
    });
    assert.equal(status, 200, text);
    const content: unknown = shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content;
    const sent = JSON.stringify(mock.requests.at(-1)?.body.messages);
    const last = [...sent.matchAll(/data:image\/\w+;base64,([\w+/=]+)/g)].at(-1)?.[1];
    return {
      text: typeof content === "string" ? content : String((content as { text?: string }[])[0]?.text),
      image: last === undefined ? null : Buffer.from(last, "base64"),
    };
  }

  interface Sent {
    readonly manifest: string;
    readonly files: readonly string[];
    readonly thread_id: string;
  }

  for (const format of ["gif", "jpeg", "png", "webp"] as const) {
    test(`a ${format} image is described, resized and converted`, async () => {
      const file_id = await upload(await picture(format), `image/${format}`);
      const files = [file_id];

      const info = await called("info", { file_id }, { files });
      const resized = await called("resize", { file_id, width: 150 }, { files });
      const converted = await called("convert", { file_id, format: format === "png" ? "jpeg" : "png" }, { files });

      assert.match(info.text, new RegExp(`^${format}, 300 × 200 pixels.*, \\d+ bytes$`));
      assert.match(resized.text, new RegExp(`^${format}, 150 × 100 pixels`));
      const { width, height } = await sharp(resized.image ?? undefined).metadata();
      assert.deepEqual([width, height], [150, 100]);
      assert.equal((await sharp(converted.image ?? undefined).metadata()).format, format === "png" ? "jpeg" : "png");
    });
  }

  const changes: readonly [name: string, tool: string, args: object, size: [number, number]][] = [
    ["resize with fit cover", "resize", { width: 100, height: 100, fit: "cover" }, [100, 100]],
    ["resize with fit inside", "resize", { width: 100, height: 100 }, [100, 67]],
    ["resize with fit fill", "resize", { width: 10, height: 40, fit: "fill" }, [10, 40]],
    ["crop", "crop", { left: 10, top: 20, width: 30, height: 40 }, [30, 40]],
    ["rotate", "rotate", { degrees: 90 }, [200, 300]],
    ["thumbnail", "thumbnail", {}, [256, 171]],
    ["thumbnail with a size", "thumbnail", { size: 30 }, [30, 20]],
  ];
  for (const [name, tool, args, size] of changes)
    test(`${name} returns an image of the expected size`, async () => {
      const file_id = await upload(await picture("png"), "image/png");

      const { text, image } = await called(tool, { file_id, ...args }, { files: [file_id] });

      assert.match(text, new RegExp(`^png, ${size.join(" × ")} pixels`));
      const { width, height } = await sharp(image ?? undefined).metadata();
      assert.deepEqual([width, height], size);
    });

  test("rotate turns clockwise, and crop cuts the named rectangle", async () => {
    const file_id = await upload(await picture("png"), "image/png");
    const colourAt = async (image: Buffer | null, left: number, top: number) => [
      ...(await sharp(image ?? undefined)
        .extract({ left, top, width: 1, height: 1 })
        .removeAlpha()
        .raw()
        .toBuffer()),
    ];

    const { image: turned } = await called("rotate", { file_id, degrees: 90 }, { files: [file_id] });
    const { image: cut } = await called(
      "crop",
      { file_id, left: 150, top: 0, width: 9, height: 9 },
      { files: [file_id] },
    );

    assert.deepEqual(await colourAt(turned, 100, 10), [255, 0, 0]);
    assert.deepEqual(await colourAt(turned, 100, 290), [0, 0, 255]);
    assert.deepEqual(await colourAt(cut, 0, 0), [0, 0, 255]);
  });

  test("an image is turned as its metadata say, and its metadata are removed", async () => {
    const bytes = await sharp(await picture("jpeg"))
      .withExif({ IFD0: { Copyright: "a person" } })
      .withMetadata({ orientation: 6 })
      .toBuffer();
    const file_id = await upload(bytes, "image/jpeg");

    const { text, image } = await called("thumbnail", { file_id, size: 100 }, { files: [file_id] });

    assert.match(text, /^jpeg, 67 × 100 pixels/);
    assert.equal((await sharp(image ?? undefined).metadata()).exif, undefined);
  });

  test("the list shows images of the conversation, those of tools too", async () => {
    const file_id = await upload(await picture("png"), "image/png");
    const thread_id = "listed";
    assert.match((await called("list", {}, { thread_id })).text, /^There are no stored images/);
    await called("thumbnail", { file_id }, { thread_id, files: [file_id] });

    const { text } = await called("list", {}, { thread_id });

    const [made = "", given = "", ...more] = text.split("\n");
    assert.match(made, /^[0-9a-f]{32} image\/png "thumbnail\.png"$/);
    assert.ok(given.startsWith(`${file_id} image/png`), text);
    assert.deepEqual(more, []);
    assert.match((await called("info", { file_id: made.slice(0, 32) }, { thread_id })).text, /^png, 256 × 171/);
  });

  test("an image of another conversation, or of another tenant, is not found", async () => {
    const own = await upload(await picture("png"), "image/png");
    const foreign = await upload(await picture("png"), "image/png", keys.bob);

    for (const file_id of [own, foreign, "0".repeat(32)])
      assert.match((await called("info", { file_id })).text, /^\[tool error\/not_found\] no such image/);
    assert.match(
      (await called("info", { file_id: foreign }, { files: [foreign] })).text,
      /^\[tool error\/not_found\] no such image/,
    );
  });

  describe("with allow_path", () => {
    const at = (name: string) => join(root, ".svc-scopes/acme/shared", name);
    const put = (name: string, bytes: Uint8Array) => {
      mkdirSync(at("."), { recursive: true, mode: 0o700 });
      writeFileSync(at(name), bytes);
    };
    const ofFile = (tool: string, args: object) => called(tool, args, { manifest: "files" });

    test("a tool reads an image of the workspace", async () => {
      put("cat.png", await picture("png"));

      assert.match((await ofFile("info", { path: "cat.png" })).text, /^png, 300 × 200 pixels/);
      assert.match((await ofFile("thumbnail", { path: "cat.png" })).text, /^png, 256 × 171 pixels/);
    });

    test("a path without allow_path, or together with a file_id, is refused", async () => {
      assert.match((await called("info", { path: "cat.png" })).text, /^\[tool error\/invalid_arguments\]/);
      assert.match((await ofFile("info", {})).text, /give either file_id or path/);
      assert.match((await ofFile("info", { path: "a", file_id: "0".repeat(32) })).text, /give either file_id or path/);
    });

    test("a path out of the workspace, or to nothing, is refused", async () => {
      assert.match((await ofFile("info", { path: "none.png" })).text, /^\[tool error\/not_found\]/);
      for (const path of ["../../../etc/passwd", "/etc/passwd"])
        assert.match((await ofFile("info", { path })).text, /^\[tool error\/(?:permission_denied|invalid_arguments)\]/);
    });

    const hostile: readonly [name: string, bytes: () => Buffer | Promise<Buffer>, tool: string, expected: RegExp][] = [
      ["of 10,000 million pixels", () => pngThatClaims(100_000, 100_000), "info", /more than 40000000 pixels/],
      ["just over 40 megapixels", () => pngThatClaims(8000, 5001), "thumbnail", /more than 40000000 pixels/],
      ["of a size of 0", () => pngThatClaims(0, 0), "info", /cannot be decoded/],
      ["that claims more than it has", () => pngThatClaims(5000, 5000), "thumbnail", /cannot be decoded/],
      ["that is cut", async () => (await picture("jpeg")).subarray(0, 900), "thumbnail", /cannot be decoded/],
      ["that is only a signature", () => smallPng().subarray(0, 8), "info", /cannot be decoded|is not a GIF/],
      [
        "of noise behind a signature",
        () => Buffer.concat([Buffer.from("GIF89a"), Buffer.alloc(5000, 7)]),
        "info",
        /cannot be decoded|pixels/,
      ],
      ["in SVG", () => svg, "info", /is not a GIF, JPEG, PNG or WebP image/],
      [
        "in TIFF",
        () =>
          sharp({ create: { width: 9, height: 9, channels: 3, background: "red" } })
            .tiff()
            .toBuffer(),
        "info",
        /is not a GIF/,
      ],
      ["that is a web page", () => Buffer.from("<html><script>alert(1)</script>"), "info", /is not a GIF/],
      ["without bytes", () => Buffer.alloc(0), "info", /is not a GIF/],
      ["over 16 MiB", () => Buffer.alloc(16 * 1024 * 1024 + 1), "info", /has more than 16777216 bytes/],
    ];
    for (const [name, bytes, tool, expected] of hostile)
      test(`an image ${name} is refused`, async () => {
        put("hostile.png", await bytes());

        const { text, image } = await ofFile(tool, { path: "hostile.png" });

        assert.match(text, /^\[tool error\/invalid_arguments\]/);
        assert.match(text, expected);
        assert.equal(image, null);
      });

    test("a script after the end of an image is removed", async () => {
      put("both.gif", Buffer.concat([await picture("gif"), Buffer.from("<script>alert(1)</script>")]));

      const { image } = await ofFile("resize", { path: "both.gif", width: 50 });

      assert.ok(image !== null && !image.includes("<script>"));
    });

    test("a result over 4,096 pixels or 600 KiB is refused", async () => {
      put("wide.png", await picture("png", 5000, 10));
      const noise = {
        create: {
          width: 1000,
          height: 1000,
          channels: 3,
          background: "red",
          noise: { type: "gaussian", mean: 128, sigma: 60 },
        },
      } as const;
      put("noise.jpg", await sharp(noise).jpeg({ quality: 100 }).toBuffer());

      assert.match(
        (await ofFile("convert", { path: "wide.png", format: "gif" })).text,
        /5000 × 10 pixels and at most 4096/,
      );
      assert.match((await ofFile("rotate", { path: "wide.png", degrees: 180 })).text, /at most 4096/);
      assert.match((await ofFile("resize", { path: "wide.png", width: 4097 })).text, /invalid_arguments/);
      assert.match((await ofFile("resize", { path: "wide.png", width: 4096 })).text, /^png, 4096 × 8 pixels/);
      assert.match((await ofFile("convert", { path: "noise.jpg", format: "png" })).text, /at most 614400 are stored/);
    });

    test("arguments that do not fit the image are refused", async () => {
      put("cat.png", await picture("png"));

      const crop = { path: "cat.png", left: 290, top: 0, width: 11, height: 10 };
      assert.match((await ofFile("crop", crop)).text, /not inside the image, which has 300 × 200 pixels/);
      assert.match((await ofFile("resize", { path: "cat.png" })).text, /give width, height or both/);
      assert.match((await ofFile("resize", { path: "cat.png", width: 9, fit: "fill" })).text, /needs width and height/);
      assert.match((await ofFile("rotate", { path: "cat.png", degrees: 45 })).text, /invalid_arguments/);
    });
  });
});
