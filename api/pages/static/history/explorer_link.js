// How does a stored recommendation open in the explorer, which holds its state in its link?
//
// Where features were asked about, they were kept; where prompts were kept, the service reads their features: the view is
// as it was. Where neither, the explorer has everything but the prompts: they are chosen there anew.

import { el } from "../elements.js";
import { EMPTY, linkOf } from "../explorer/state.js";
import { ask } from "../fetching.js";
import { methodName } from "../formatting.js";

/** The link with what it leaves out, in words; `failed` takes why it cannot be followed. */
export async function explorerLink(whole, failed) {
  const { state, without } = stateOf(whole);
  const link = el("a", { class: "button quiet", href: `/#${await linkOf(state)}` }, "Open in the explorer");
  const said = ["The explorer asks anew, with today's models and vLLM's default version."];
  if (without.length > 0) said.push(`It does not take ${without.join(", ")}.`);
  if (whole.prompts !== null) {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      try {
        const features = await ask("POST", "/v1/workloads?name=prompts.json", {
          file: new Blob([JSON.stringify(whole.prompts)]),
        });
        location.assign(`/#${await linkOf({ ...state, features, source: "kept prompts" })}`);
      } catch (error) {
        failed(error);
      }
    });
  } else if (state.features === null) {
    said.push("Choose the prompts there: they were not kept.");
  }
  return { link, hint: said.join(" ") };
}

// What of a request the explorer has a place for; and defaults, which say nothing that could be left out.
const TAKEN = {
  target: ["name", "config"],
  gpu: ["name"],
  deployment: [
    "target",
    "gpu",
    "speculation",
    "engine_version",
    "tensor_parallel_size",
    "max_model_len",
    "gpu_memory_utilization",
    "kv_cache_dtype",
  ],
  speculation: ["method", "draft", "num_speculative_tokens"],
  draft: ["name"],
  traffic: ["concurrency", "temperature", "input_tokens", "output_tokens"],
  policy: ["objective", "min_speedup"],
};
const DEFAULTS = {
  deployment: { enable_prefix_caching: true, enforce_eager: false },
  speculation: { draft_sample_method: "greedy", use_heterogeneous_vocab: false },
  policy: { confidence: 0.8 },
};

function stateOf({ request, profile_id: profileId }) {
  const { deployment, traffic, policy, evidence = {} } = request;
  const { target, gpu, speculation = {} } = deployment;
  const { draft = {} } = speculation;
  const told = {
    target: target.name,
    config: target.config,
    gpu: gpu.name,
    draft: draft.name ?? (speculation.method && methodName(speculation.method)),
    concurrency: traffic.concurrency,
    temperature: traffic.temperature,
    input: traffic.input_tokens,
    output: traffic.output_tokens,
    k: speculation.num_speculative_tokens,
    tp: deployment.tensor_parallel_size,
    maxLen: deployment.max_model_len,
    memory: deployment.gpu_memory_utilization,
    features: request.workload,
    source: request.workload && "kept features",
    kv: deployment.kv_cache_dtype === "auto" ? null : deployment.kv_cache_dtype,
    objective: policy.objective,
    minimum: policy.min_speedup,
  };
  const without = Object.entries({ target, gpu, deployment, speculation, draft, traffic, policy }).flatMap(
    ([place, given]) =>
      Object.keys(given)
        .filter((name) => !TAKEN[place].includes(name) && given[name] !== DEFAULTS[place]?.[name])
        .map((name) => `${place}.${name}`),
  );
  if (profileId !== null || Object.keys(evidence).length > 0) without.push("evidence");
  return { state: Object.fromEntries(Object.keys(EMPTY).map((name) => [name, told[name] ?? null])), without };
}
