// Passages of a shop's handbook in three languages, and questions whose passage is known. Each subject has three passages, on the
// guarantee, the delivery and the care; so a question competes with the same subject's other passages and with the same matter of
// other subjects. Questions use other words or other forms than their passage where people would.

/** A passage of the set. */
export interface Passage {
  readonly id: string;
  readonly language: Language;
  readonly text: string;
}

/** A question with the passage that answers it. */
export interface Question {
  readonly text: string;
  readonly language: Language;
  readonly passage: string;
}

/** A language of the set. */
export type Language = "English" | "German" | "Japanese";

type Write = (name: string, number: number) => string;

/** The sentences of one language: for each matter the variants of its passages and of its questions. */
interface Sentences {
  readonly language: Language;
  readonly names: readonly string[];
  /** How many subjects a question is asked about. */
  readonly questions: number;
  readonly matters: readonly { readonly says: readonly Write[]; readonly asks: readonly Write[] }[];
}

const english: Sentences = {
  language: "English",
  questions: 34,
  names: [
    ...["kettle", "toaster", "bicycle", "tent", "lantern", "camera", "printer", "blender", "heater", "mattress"],
    ...["sofa", "bookcase", "violin", "keyboard", "telescope", "drone", "scooter", "backpack", "jacket", "boots"],
    ...["razor", "scale", "humidifier", "router", "headphones", "projector", "speaker", "grill", "mower", "drill"],
    ...["saw", "ladder", "compressor", "generator"],
  ],
  matters: [
    {
      says: [
        (name, n) =>
          `Every ${name} comes with a guarantee of ${n} years from the date of purchase. Keep the receipt, because the repair is free only with it.`,
        (name, n) =>
          `If a ${name} breaks within ${n} years, the maker repairs it without charge. Damage by falls is not covered.`,
      ],
      asks: [
        (name) => `How many years of guarantee do I have on a ${name}?`,
        (name) => `My ${name} is broken. Will somebody repair it free of charge?`,
      ],
    },
    {
      says: [
        (name, n) =>
          `We ship the ${name} by parcel. It arrives within ${n} working days, and the tracking number is sent by mail.`,
        (name, n) =>
          `Delivery of a ${name} takes ${n} days inside the country. A courier brings it to the door between nine and five.`,
      ],
      asks: [
        (name) => `When will the ${name} that I ordered arrive?`,
        (name) => `How long does shipping take for ${name} orders?`,
      ],
    },
    {
      says: [
        (name, n) =>
          `Clean the ${name} with a soft cloth every ${n} weeks. Never use solvents; they make the surface dull.`,
        (name, n) =>
          `To care for your ${name}, wipe it with warm water and dry it at once. Repeat this every ${n} weeks.`,
      ],
      asks: [(name) => `What should I use for cleaning my ${name}?`, (name) => `How often must a ${name} be wiped?`],
    },
  ],
};

const german: Sentences = {
  language: "German",
  questions: 33,
  names: [
    ...[
      "Wasserkocher",
      "Toaster",
      "Fahrrad",
      "Zelt",
      "Laterne",
      "Kamera",
      "Drucker",
      "Mixer",
      "Heizlüfter",
      "Matratze",
    ],
    ...["Sofa", "Bücherregal", "Geige", "Tastatur", "Fernrohr", "Drohne", "Roller", "Rucksack", "Jacke", "Stiefel"],
    ...["Rasierer", "Waage", "Luftbefeuchter", "Router", "Kopfhörer", "Beamer", "Lautsprecher", "Grill", "Rasenmäher"],
    ...["Bohrmaschine", "Kreissäge", "Leiter", "Kompressor"],
  ],
  matters: [
    {
      says: [
        (name, n) =>
          `Garantie (${name}): Der Hersteller gewährt ${n} Jahre ab dem Kauf. Bewahren Sie den Beleg auf, denn nur mit ihm ist die Reparatur kostenlos.`,
        (name, n) =>
          `Geht das Produkt ${name} innerhalb von ${n} Jahren kaputt, wird es ohne Kosten repariert. Sturzschäden sind ausgenommen.`,
      ],
      asks: [
        (name) => `Wie viele Jahre Garantie habe ich auf ${name}?`,
        (name) => `${name} kaputt: Wird das kostenlos repariert?`,
      ],
    },
    {
      says: [
        (name, n) =>
          `Versand (${name}): Das Paket kommt in ${n} Werktagen an. Die Sendungsnummer schicken wir per E-Mail.`,
        (name, n) =>
          `Die Lieferung für ${name} dauert im Inland ${n} Tage. Ein Kurier bringt die Ware zwischen neun und fünf Uhr an die Tür.`,
      ],
      asks: [
        (name) => `Wann kommt mein Paket mit ${name} an?`,
        (name) => `Wie lange dauert die Lieferung, wenn ich ${name} bestelle?`,
      ],
    },
    {
      says: [
        (name, n) =>
          `Pflege (${name}): Alle ${n} Wochen mit einem weichen Tuch reinigen. Lösungsmittel machen die Oberfläche stumpf.`,
        (name, n) =>
          `So reinigen Sie ${name}: mit warmem Wasser abwischen und sofort trocknen. Wiederholen Sie das alle ${n} Wochen.`,
      ],
      asks: [(name) => `Womit reinige ich ${name}?`, (name) => `Wie oft muss man ${name} abwischen und reinigen?`],
    },
  ],
};

const japanese: Sentences = {
  language: "Japanese",
  questions: 33,
  names: [
    ...["電気ケトル", "トースター", "自転車", "テント", "ランタン", "カメラ", "プリンター", "ミキサー", "暖房器具"],
    ...["マットレス", "ソファ", "本棚", "バイオリン", "キーボード", "望遠鏡", "ドローン", "スクーター", "リュック"],
    ...["上着", "長靴", "髭剃り", "体重計", "加湿器", "ルーター", "ヘッドホン", "映写機", "スピーカー", "焼き網"],
    ...["芝刈り機", "電動ドリル", "丸鋸", "梯子", "発電機"],
  ],
  matters: [
    {
      says: [
        (name, n) => `${name}の保証期間は購入日から${n}年です。修理が無料になるのは領収書がある場合だけです。`,
        (name, n) => `${name}が${n}年以内に壊れた場合は、製造元が無料で修理します。落下による破損は対象外です。`,
      ],
      asks: [(name) => `${name}の保証は何年ですか。`, (name) => `${name}が壊れました。無料で修理できますか。`],
    },
    {
      says: [
        (name, n) => `${name}は宅配便で発送します。${n}営業日以内に届き、追跡番号はメールで送ります。`,
        (name, n) => `${name}の配送は国内で${n}日かかります。配達員が九時から五時の間に玄関まで届けます。`,
      ],
      asks: [(name) => `注文した${name}はいつ届きますか。`, (name) => `${name}の配送には何日かかりますか。`],
    },
    {
      says: [
        (name, n) => `${name}は${n}週間ごとに柔らかい布で掃除してください。溶剤は表面を傷めます。`,
        (name, n) => `${name}の手入れは、ぬるま湯で拭いてすぐに乾かします。${n}週間ごとに繰り返してください。`,
      ],
      asks: [(name) => `${name}の掃除には何を使いますか。`, (name) => `${name}の手入れで拭く間隔を教えてください。`],
    },
  ],
};

const all = [english, german, japanese];

/** 300 passages. */
export const passages: readonly Passage[] = all.flatMap(({ language, names, matters }) =>
  names.flatMap((name, at) =>
    matters.map(({ says }, matter) => ({
      ...{ id: `${language} ${at}.${matter}`, language },
      text: says[at % says.length]?.(name, 2 + ((at + matter) % 7)) ?? "",
    })),
  ),
);

/** 100 questions; each asks about one matter of one subject. */
export const questions: readonly Question[] = all.flatMap(({ language, names, matters, questions: count }) =>
  names.slice(0, count).map((name, at) => {
    const matter = at % matters.length;
    const asks = matters[matter]?.asks ?? [];
    // The wording of the question and of the passage change at different places.
    return { text: asks[(at >> 1) % 2]?.(name, 0) ?? "", language, passage: `${language} ${at}.${matter}` };
  }),
);
