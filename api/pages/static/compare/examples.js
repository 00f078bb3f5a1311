// Prompts to begin with: answers that repeat what is known, answers that do not, and long texts to look things up in.

const structured = [
  `Turn these orders into a JSON array. Each object has the keys "id", "customer", "item", "quantity", "unit_price" and "currency", in that order.

Order 4471: Ines Duarte takes 12 desk lamps at 18.50 EUR each.
Order 4472: Tomasz Lis takes 3 standing desks at 412.00 EUR each.
Order 4473: Priya Raman takes 40 cable clips at 0.75 EUR each.
Order 4474: Ines Duarte takes 2 footrests at 31.20 EUR each.
Order 4475: Kofi Mensah takes 6 monitor arms at 94.90 EUR each.`,
  `Add type annotations and a docstring to each function, and give back the whole module.

def total(prices, discount=0):
    result = 0
    for price in prices:
        result += price * (1 - discount)
    return result

def cheapest(prices, limit):
    found = []
    for name, price in prices.items():
        if price <= limit:
            found.append((name, price))
    return sorted(found, key=lambda pair: pair[1])

def average(prices):
    if not prices:
        return None
    return sum(prices) / len(prices)`,
  `Write one SQL statement for PostgreSQL that creates a table "shipments" with the columns id, order_id, carrier, tracking_number, shipped_at, delivered_at and weight_grams, then ten INSERT statements with plausible rows.`,
];

const creative = [
  `Write a short story about a lighthouse keeper who finds that the light has been answering ships on its own. End it with a question.`,
  `Describe a market in a city that does not exist, by its smells alone, in three paragraphs.`,
  `Write a letter from a retired cartographer to the river that never stayed where she drew it.`,
];

const PEOPLE = ["Osei", "Lindqvist", "Marek", "Tanaka", "Duarte", "Ferreira"];
const REMARKS = [
  "no remark",
  "slight vibration, to be watched",
  "filter changed",
  "seal wiped dry, no leak since",
  "noise at start, gone after a minute",
  "oil topped up by half a litre",
];

/** A log of pumps with so many words, always the same one. */
function pumpLog(words) {
  const lines = [];
  for (let n = 1, seed = 7; lines.length * 22.5 < words; n += 1) {
    seed = (seed * 1103515245 + 12345) % 2147483648; // the C standard's example generator
    const of = (list) => list[(seed >> 8) % list.length];
    const day = 1 + Math.floor(n / 9);
    const hour = String(6 + (n % 9) * 2).padStart(2, "0");
    lines.push(
      `Entry ${String(n).padStart(4, "0")}, day ${day}, ${hour}:00: pump P-${1 + ((seed >> 5) % 6)} at ${60 + ((seed >> 9) % 35)} per cent, ` +
        `outlet ${(3 + ((seed >> 11) % 20) / 10).toFixed(1)} bar, bearing ${52 + ((seed >> 13) % 20)} °C, ${of(REMARKS)} (${of(PEOPLE)}).`,
    );
  }
  return lines.join("\n");
}

const QUESTIONS = [
  "Copy, word for word, the first ten entries about pump P-3 from the log below.",
  "Summarise the log below in five sentences: which pump needs attention first, and why?",
  "For each pump in the log below give its highest bearing temperature and the entry in which it stands, as a table.",
];

const long = (words) => {
  const log = pumpLog(words);
  return QUESTIONS.map((question) => `${question}\n\n${log}`);
};

/** Prompts of a tab by its id; `words` is for the long ones. */
export const examples = (tab, words) => (tab === "long" ? long(words) : tab === "creative" ? creative : structured);
