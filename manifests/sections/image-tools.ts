import { imageSideMax } from "../bounds.ts";
import { choice, closed, fatal, flag, list, toolName } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const imageOps = ["list", "info", "resize", "crop", "rotate", "convert", "thumbnail"] as const;
/** The operation of an image tool. */
export type ImageOp = (typeof imageOps)[number];

/** The formats of results. */
export const imageFormats = ["gif", "jpeg", "png", "webp"] as const;

const fields = {
  image_tools: list(
    "Tools that work on images.",
    closed("One tool.", {
      name: toolName("Name of the tool."),
      description: toldToTheModel(),
      op: choice("What it does.", imageOps),
      allow_path: flag("Lets the model name a workspace file."),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields>;

/** A tool that works on an image. */
export type ImageTool = ToolSpec & {
  readonly op: ImageOp;
  /** True if the model may name a file of the workspace. */
  readonly allowsPath: boolean;
};

export const imageTools = defineSection({
  fields,
  rules: [unique("image_tools", "name")],
  binds: (spec: Spec) =>
    spec.image_tools.map((tool, at) => ({ loc: ["spec", "image_tools", at], tool: compiled(tool) })),
  compile: (spec: Spec) => ({
    imageTools: new Map(spec.image_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<string, ImageTool>,
  }),
});

function compiled({ name, description, op, allow_path, fatal }: Spec["image_tools"][number]): ImageTool {
  const allowsPath = allow_path && op !== "list";
  const { told, properties, required } = ops[op];
  return {
    name,
    description: description || told,
    parameters: {
      type: "object",
      properties: { ...(op !== "list" && sourceOf(allowsPath)), ...properties },
      required: [...(op === "list" || allowsPath ? [] : ["file_id"]), ...required],
      additionalProperties: false,
    },
    // A result is stored with the record of its call, so that a repeated call leaves one image.
    effect: "read",
    risk: "reads",
    workspace: allowsPath,
    fatal,
    op,
    allowsPath,
  };
}

function sourceOf(allowsPath: boolean) {
  const file_id = {
    type: "string",
    pattern: "^[0-9a-f]{32}$",
    description: `Id of an image of this conversation.${allowsPath ? " Give either file_id or path." : ""}`,
  };
  const path = {
    type: "string",
    minLength: 1,
    maxLength: 4096,
    description: "Image file, from the workspace's root, as in pictures/cat.png.",
  };
  return { file_id, ...(allowsPath && { path }) };
}

interface OpSpec {
  readonly told: string;
  readonly properties: Readonly<Record<string, object>>;
  readonly required: readonly string[];
}

function pixels(description: string, minimum = 1, maximum = imageSideMax) {
  return { type: "integer", minimum, maximum, description };
}

const ops: Readonly<Record<ImageOp, OpSpec>> = {
  list: { told: "Lists the images of this conversation, newest first.", properties: {}, required: [] },
  info: { told: "Returns the format and the size of an image.", properties: {}, required: [] },
  resize: {
    told: "Changes the size of an image. Its proportions stay unless fit says otherwise.",
    properties: {
      width: pixels("Width in pixels."),
      height: pixels("Height in pixels."),
      fit: {
        type: "string",
        enum: ["inside", "cover", "fill"],
        description:
          "inside (default): not larger than width and height. cover: exactly so, cut. fill: exactly so, distorted.",
      },
    },
    required: [],
  },
  crop: {
    told: "Cuts a rectangle out of an image.",
    properties: {
      left: pixels("Left edge in pixels.", 0, 1_000_000),
      top: pixels("Top edge in pixels.", 0, 1_000_000),
      width: pixels("Width in pixels."),
      height: pixels("Height in pixels."),
    },
    required: ["left", "top", "width", "height"],
  },
  rotate: {
    told: "Turns an image clockwise.",
    properties: { degrees: { type: "integer", enum: [90, 180, 270], description: "Angle, clockwise." } },
    required: ["degrees"],
  },
  convert: {
    told: "Converts an image to another format.",
    properties: {
      format: { type: "string", enum: imageFormats, description: "The new format." },
      quality: { type: "integer", minimum: 1, maximum: 100, description: "Quality of JPEG and WebP; 80 if absent." },
    },
    required: ["format"],
  },
  thumbnail: {
    told: "Makes a small version of an image.",
    properties: { size: pixels("Max width and height in pixels; 256 if absent.", 16, 512) },
    required: [],
  },
};
