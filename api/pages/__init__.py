"""Pages for people: each is a template, its modules of JavaScript and the service's own routes under /v1.

site      templates and assets, read once; which headers a page goes out with
assets    GET /assets: scripts and styles, cached by their content
explorer  GET /: a verdict for one's own prompts, and what moves it
compare   GET /compare: one prompt to two servers, both answers side by side
history   GET /history: what was answered and measured before, and jobs while they run

A page holds nothing of anybody's: what it shows comes from /v1, with the key that its reader gives it. To add one,
write `templates/NAME.html` (it extends `layout.html`), `static/NAME.js`, a module here with a router, and its name in
`api.app`.
"""
