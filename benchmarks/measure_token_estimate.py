"""Fits the prices of profiler/prompts/tokens.py and measures the error of the estimate; prints both as JSON.

    python benchmarks/measure_token_estimate.py TOKENIZER ... [--also TOKENIZER ...]

A TOKENIZER is the path of a tokenizer.json, or the name of an encoding of the package bpe-openai (cl100k_base or
o200k_base). Prices are fitted to the first ones alone; those after --also are only measured. Texts are put together here
from sentences and templates: 14 languages, code in three languages, JSON, tables of numbers, markdown. Every sentence
belongs to the half that is fitted or to the half that is measured, never to both.
"""

# ruff: noqa: E501  (code templates are kept one a line)

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from profiler.prompts.tokens import FEATURES, features

SENTENCES = {
    "english": """Write a short story about a lighthouse keeper who collects lost umbrellas and returns them by post.
Summarise the minutes below in five bullet points, and name who is responsible for each decision.
You are a helpful assistant. Answer briefly, and say so when you do not know.
The council met on Tuesday to discuss the bridge; engineers reported corrosion in two of its nine piers.
Explain the difference between optimistic and pessimistic locking to a junior developer with an example.
Could you please rewrite this paragraph so that it sounds less formal but keeps every fact?
A tank loses three percent of its water each day. After how many days is less than half of it left?
Classify the customer's message as complaint, question, praise or other, and extract the order number.
Photosynthesis converts light energy into chemical energy, which is later released to fuel the organism's activities.
My neighbour's dog barks all night and I have an exam tomorrow. What can I do that isn't rude?
The quarterly report shows that revenue rose modestly while operating expenses, notably logistics, fell.
Plan a weekend in a small harbour town for two adults and a child who loves trains but hates museums.""",
    "german": """Übersetze den folgenden Absatz ins Englische und erkläre die Redewendungen, die darin vorkommen.
Die Geschwindigkeitsbegrenzung auf der Landstraße wurde wegen der Bauarbeiten vorübergehend geändert.
Schreibe eine höfliche Absage an einen Bewerber, dessen Unterlagen uns dennoch gefallen haben.
Welche Versicherungen braucht ein selbstständiger Fotograf, und welche kann er sich sparen?
Der Käse fehlt zwar, aber die Löcher sind noch da, sagte der Händler und lachte.
Fasse die wichtigsten Ergebnisse der Besprechung in drei Sätzen zusammen.""",
    "french": """Rédige une lettre de motivation pour un poste de bibliothécaire dans une petite ville.
Où est passé le chat qui dormait hier soir sur le rebord de la fenêtre ?
Explique-moi la différence entre une obligation et une action, sans utiliser de jargon financier.
L'entreprise a annoncé qu'elle fermerait deux usines avant la fin de l'année prochaine.
Corrige les fautes d'orthographe dans le texte suivant et propose un titre plus accrocheur.
Les élèves préparent une exposition sur l'histoire du port et de ses métiers oubliés.""",
    "spanish": """Escribe un poema breve sobre un ascensor averiado y los vecinos que se conocen en la escalera.
¿Cuáles son las ventajas y los inconvenientes de trabajar desde casa durante todo el año?
Resume el siguiente artículo en un solo párrafo y señala las cifras más importantes.
El ayuntamiento aprobó ayer un nuevo plan para reducir el tráfico en el centro histórico.
Necesito una receta sencilla con garbanzos, espinacas y lo que suele haber en la despensa.
Traduce al inglés la cláusula del contrato que habla de la indemnización.""",
    "russian": """Напиши короткий рассказ о смотрителе маяка, который собирает потерянные зонты.
Объясни разницу между процессом и потоком операционной системы простыми словами.
Какие документы нужны для регистрации индивидуального предпринимателя в этом году?
Переведи на английский язык следующее предложение и сохрани его разговорный тон.
Вчера вечером совет обсуждал ремонт моста, но решение так и не было принято.
Составь список покупок для ужина на шесть человек без мяса и орехов.""",
    "chinese": """请写一篇关于收集雨伞的灯塔看守人的短篇小说,不超过三百字。
用通俗易懂的语言解释一下进程和线程的区别,并举一个例子。
把下面这段话翻译成英文,保持原来的语气和格式。
市议会星期二讨论了大桥的维修方案,但是没有作出最后决定。
帮我列一份六个人的晚餐购物清单,不要肉类和坚果。
这份合同的第三条和第七条是否互相矛盾?请说明理由。""",
    "japanese": """日本語で自己紹介文を三行で書いてください。
次の文章を英語に翻訳し、慣用句の意味を説明してください。
来週の会議の議題をまとめて、参加者に送るメールの下書きを作ってください。
この関数はなぜ最後の要素を返さないのですか。修正案を示してください。
雨の日に子どもと室内で楽しめる遊びを五つ教えてください。
昨日のデータベース障害の原因と再発防止策を簡潔に説明してください。""",
    "korean": """잃어버린 우산을 모으는 등대지기에 대한 짧은 이야기를 써 주세요.
프로세스와 스레드의 차이를 쉬운 말로 설명하고 예를 들어 주세요.
다음 문장을 영어로 번역하되 말투는 그대로 유지해 주세요.
시의회는 화요일에 다리 보수 계획을 논의했지만 결정을 내리지 못했습니다.
여섯 명이 먹을 저녁 식사 장보기 목록을 만들어 주세요.
이 계약서의 세 번째 조항이 무슨 뜻인지 알려 주세요.""",
    "arabic": """اكتب قصة قصيرة عن حارس منارة يجمع المظلات الضائعة.
اشرح الفرق بين العملية والخيط في نظام التشغيل بكلمات بسيطة.
ترجم الجملة التالية إلى الإنجليزية مع الحفاظ على أسلوبها.
ناقش المجلس يوم الثلاثاء خطة إصلاح الجسر لكنه لم يتخذ قرارا.
أعد قائمة مشتريات لعشاء ستة أشخاص من دون لحوم أو مكسرات.
ما معنى البند الثالث من هذا العقد؟""",
    "hindi": """खोई हुई छतरियाँ इकट्ठा करने वाले एक प्रकाशस्तंभ रक्षक पर एक छोटी कहानी लिखिए।
प्रोसेस और थ्रेड के बीच का अंतर सरल शब्दों में समझाइए।
नीचे दिए गए वाक्य का अंग्रेज़ी में अनुवाद कीजिए।
परिषद ने मंगलवार को पुल की मरम्मत की योजना पर चर्चा की।
छह लोगों के रात के खाने के लिए खरीदारी की सूची बनाइए।
इस अनुबंध की तीसरी धारा का क्या अर्थ है?""",
    "thai": """เขียนเรื่องสั้นเกี่ยวกับผู้ดูแลประภาคารที่เก็บร่มที่หายไป
อธิบายความแตกต่างระหว่างโปรเซสกับเธรดด้วยคำง่ายๆ
แปลประโยคต่อไปนี้เป็นภาษาอังกฤษโดยคงน้ำเสียงเดิมไว้
สภาเมืองหารือแผนซ่อมสะพานเมื่อวันอังคาร
ช่วยทำรายการซื้อของสำหรับอาหารเย็นหกคน
ข้อที่สามของสัญญานี้หมายความว่าอะไร""",
    "greek": """Γράψε μια σύντομη ιστορία για έναν φαροφύλακα που μαζεύει χαμένες ομπρέλες.
Εξήγησε με απλά λόγια τη διαφορά ανάμεσα σε διεργασία και νήμα.
Μετάφρασε την παρακάτω πρόταση στα αγγλικά.
Το συμβούλιο συζήτησε την Τρίτη την επισκευή της γέφυρας.
Φτιάξε μια λίστα αγορών για δείπνο έξι ατόμων.
Τι σημαίνει ο τρίτος όρος αυτού του συμβολαίου;""",
    "hebrew": """כתוב סיפור קצר על שומר מגדלור שאוסף מטריות אבודות.
הסבר את ההבדל בין תהליך לתהליכון במילים פשוטות.
תרגם את המשפט הבא לאנגלית ושמור על הטון.
המועצה דנה ביום שלישי בתיקון הגשר.
הכן רשימת קניות לארוחת ערב לשישה אנשים.
מה המשמעות של הסעיף השלישי בחוזה?""",
    "georgian": """დაწერე მოკლე მოთხრობა შუქურის მცველზე.
ახსენი მარტივი სიტყვებით განსხვავება პროცესსა და ნაკადს შორის.
თარგმნე შემდეგი წინადადება ინგლისურად.
საბჭომ სამშაბათს ხიდის შეკეთება განიხილა.""",
    "symbols": """Explain this emoji story: 🚲➡️🌧➡️🛠️➡️☀️ and give it a happy end 🎉🎉.
“Curly quotes” — and long dashes — aren’t rare in texts pasted from an editor… are they?
Prove that ∀ε > 0 ∃δ > 0: |x − a| < δ ⇒ |f(x) − L| < ε, where α ≤ β² and ∑ xᵢ ≠ ∞.
Price: 3 × 12,50 € + 7 % = ? £ and ¥ too ✅ ❌ 👍🏽 🤖 • first · second → third.
「雨の日、傘を忘れた。」という一文から始まる物語を、『灯台』という言葉を使って書いてください!
请把“灯塔”、“雨伞”和“邮局”这三个词,按照(甲)、(乙)、(丙)的顺序放进一首诗里。""",
}
IDENTIFIERS = re.findall(
    r"\w+",
    """parse_line RequestQueue totalAmount user_id fetchAll maxRetries buffer_size HttpClient index items
order_total isReady depot_id loadConfig write_bytes sample_rate NodeList retry_after getUserName values token_count
weighed_at PriceTable on_close flushAll created_at toString cache_key ttl renderPage batch""",
)
PYTHON = (
    "def {a}({b}, {c}=None):\n    if {c} is None:\n        {c} = []\n    for {d} in {b}:\n        {c}.append({d}.{e}({n}))\n    return {c}\n",
    "class {A}:\n    def __init__(self, {b}: int) -> None:\n        self.{b} = {b}\n        self._{c}: dict[str, float] = {{}}\n",
    "with open({a!r}, encoding='utf-8') as {b}:\n    {c} = json.load({b})\nprint(f'{{{c}[\"{d}\"]:.2f}}')\n",
    "@pytest.mark.parametrize(('{b}', '{c}'), [({n}, {m}), (0, -1)])\ndef test_{a}({b}, {c}):\n    assert {d}({b}) == {c}\n",
    "try:\n    {a} = await {b}.{c}(timeout={n})\nexcept ({A}Error, OSError) as error:\n    logger.warning('%s failed: %s', {d}, error)\n",
    "{a} = [{b} ** 2 for {b} in range({n}) if {b} % 2 == 0]\n{c} = sum({a}) / len({a})  # the mean of {d}\n",
)
SCRIPT = (
    "export const {a} = async ({b}, {c} = {{}}) => {{\n  const {d} = await fetch(`/api/${{{b}}}`);\n  return {d}.json();\n}};\n",
    "for (let {b} = 0; {b} < {a}.length; {b}++) {{\n\tif ({a}[{b}].{c} === null) continue;\n\t{d}.push({a}[{b}]);\n}}\n",
    "fn {a}<T: Ord>({b}: &[T], {c}: usize) -> Option<&T> {{\n    {b}.iter().filter(|{d}| *{d} > &{b}[{c}]).max()\n}}\n",
    "public {A} {a}(final String {b}) throws IOException {{\n    return this.{c}.get({b}).orElseThrow(() -> new {A}({n}));\n}}\n",
)
SQL = (
    "SELECT {a}, COUNT(*) AS {b} FROM {c} WHERE {d} >= '2026-0{k}-1{k}' GROUP BY {a} HAVING COUNT(*) > {n} ORDER BY 2 DESC;\n",
    "CREATE TABLE {a} (\n  {b} BIGINT PRIMARY KEY,\n  {c} VARCHAR({n}) NOT NULL,\n  {d} TIMESTAMP DEFAULT now()\n);\n",
    "UPDATE {a} SET {b} = {b} + {n} FROM {c} AS t WHERE t.{d} = {a}.{d} AND t.{e} IS NOT NULL;\n",
    "WITH {a} AS (SELECT {b}, rank() OVER (PARTITION BY {c} ORDER BY {d}) AS r FROM {e}) SELECT * FROM {a} WHERE r <= {k};\n",
)


def code(templates: tuple[str, ...], dice: random.Random) -> str:
    """A few pieces of code with names put in."""
    parts = []
    for _ in range(dice.randrange(1, 5)):
        names = {letter: dice.choice(IDENTIFIERS) for letter in "abcde"}
        name = names["a"].title().replace("_", "")
        parts.append(
            dice.choice(templates).format(
                A=name, n=dice.randrange(2, 2000), m=dice.randrange(99), k=dice.randrange(1, 9), **names
            )
        )
    return "\n".join(parts)


def json_text(words: list[str], dice: random.Random) -> str:
    """Records as an API would answer them, indented or not."""
    rows = [
        {
            dice.choice(IDENTIFIERS): dice.choice([dice.randrange(10**6), round(dice.random() * 1000, 2), None, True]),
            "name": " ".join(dice.choices(words, k=2)),
            "created_at": f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}T{dice.randrange(24):02}:15:00Z",
            "tags": dice.choices(words, k=2),
        }
        for _ in range(dice.randrange(1, 6))
    ]
    return json.dumps(rows, indent=dice.choice([None, 2, 4]))


def numbers(words: list[str], dice: random.Random) -> str:
    """A table of numbers with a header."""
    rows = [",".join(dice.choices(words, k=4))]
    for _ in range(dice.randrange(2, 12)):
        rows.append(
            f"{dice.randrange(10**5)},{dice.random() * 100:.3f},{dice.randrange(100)}%,-{dice.randrange(10)}.{dice.randrange(100)}"
        )
    return "\n".join(rows)


def texts(half: int) -> list[tuple[str, str]]:
    """(kind, text) of one half: sentences and templates of even or odd position."""
    dice = random.Random(half)
    made: list[tuple[str, str]] = []
    english = SENTENCES["english"].split("\n")[half::2]
    words = " ".join(english).replace(".", "").replace(",", "").split()
    for language, block in SENTENCES.items():
        sentences = block.split("\n")[half::2]
        for _ in range(60 if language == "english" else 24):
            joint = dice.choice([" ", " ", "\n", "\n\n"])
            made.append((language, joint.join(dice.choices(sentences, k=dice.randrange(1, 8)))))
    for _ in range(40):
        made.append(("python", code(PYTHON[half::2], dice)))
        made.append(("other code", code(SCRIPT[half::2], dice)))
        made.append(("sql", code(SQL[half::2], dice)))
        made.append(("json", json_text(words, dice)))
        made.append(("numbers", numbers(words, dice)))
        task = dice.choice(english)
        made.append(("prose with code", f"{task}\n\n```python\n{code(PYTHON[half::2], dice)}```\n"))
        points = "\n".join(
            f"{i}. **{dice.choice(words)}**: {dice.choice(english)}" for i in range(1, dice.randrange(3, 7))
        )
        made.append(("markdown", f"# {dice.choice(words).title()}\n\n{points}\n"))
    return made


def counter(name: str) -> Callable[[str], int]:
    """A function from a text to its tokens."""
    if name.endswith(".json"):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(name)
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    import bpe_openai

    encoding = bpe_openai.get_encoding(name)
    return lambda text: len(encoding.encode(text))


def errors(estimate: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Median and 90th percentile of the relative error, and the error of the sum."""
    relative = np.abs(estimate / true - 1)
    return {
        "median": round(float(np.median(relative)), 3),
        "p90": round(float(np.quantile(relative, 0.9)), 3),
        "of_the_sum": round(float(estimate.sum() / true.sum() - 1), 3),
    }


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--also"]
    if not names:
        raise SystemExit(__doc__)
    fitted = sys.argv[1 : sys.argv.index("--also")] if "--also" in sys.argv else names
    counters = {name: counter(name) for name in names}
    kinds: list[list[str]] = []
    seen: list[np.ndarray] = []
    counts: list[dict[str, np.ndarray]] = []
    for half in (0, 1):
        made = texts(half)
        kinds.append([kind for kind, _ in made])
        seen.append(features([text for _, text in made]))
        counts.append(
            {name: np.array([count(text) for _, text in made], dtype=float) for name, count in counters.items()}
        )
    mean = np.mean([counts[0][name] for name in fitted], axis=0)
    prices, _ = nnls(seen[0] / mean[:, None], np.ones(len(mean)))  # of relative errors
    estimate = np.maximum(1, np.rint(seen[1] @ prices))
    result = {
        "prices": {name: round(float(price), 3) for name, price in zip(FEATURES, prices, strict=True)},
        "held_out": errors(np.tile(estimate, len(fitted)), np.concatenate([counts[1][name] for name in fitted])),
        "by_tokenizer": {Path(name).stem: errors(estimate, counts[1][name]) for name in names},
        "by_kind": {},
    }
    groups = {kind: {kind} for kind in dict.fromkeys(kinds[1])}
    groups["all that is not English, code or data"] = set(SENTENCES) - {"english", "symbols"}
    groups["English, code and data"] = set(kinds[1]) - (set(SENTENCES) - {"english"})
    for kind, members in groups.items():
        of_kind = np.array([one in members for one in kinds[1]])
        result["by_kind"][kind] = errors(
            np.tile(estimate[of_kind], len(fitted)), np.concatenate([counts[1][name][of_kind] for name in fitted])
        )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
