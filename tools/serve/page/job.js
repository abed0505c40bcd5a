// The job: what is asked, as the job file has it; and as a link carries it.

export const first_job = () => ({
  name: 'my job',
  model: 'llama-2-7b',
  training: {global_batch: 64, sequence_length: 4096, micro_batch: 'auto', recompute: 'auto'},
  cluster: {machine: ['p4d.24xlarge'], count: [1, 2, 4]},
  parallelism: 'auto',
  objective: {minimize: 'step_time', tokens: 1e10},
});

export function to_link(job) {
  const bytes = new TextEncoder().encode(JSON.stringify(job));
  const text = btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
  return '#job=' + text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

// Null: the link carries none. An Error: it cannot be read.
export function of_link(hash) {
  const found = /^#job=([A-Za-z0-9_-]+)$/.exec(hash);
  if (!found) return null;
  try {
    const text = atob(found[1].replaceAll('-', '+').replaceAll('_', '/'));
    const job = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, c => c.charCodeAt(0))));
    if (typeof job === 'object' && job !== null && !Array.isArray(job)) return job;
  } catch {
    // said below
  }
  throw new Error('The link carries no job that can be read; was it cut?');
}

// The job with nothing left to choose: a plan of the answer, in place of what was open.
export function settled(job, plan) {
  const {instance_type, instance_count, distribution, compiler_config, ...rest} = job;
  const cluster = {...rest.cluster, machine: plan.cluster.machine, count: plan.cluster.count};
  return {...rest, cluster, training: plan.training, parallelism: plan.parallelism};
}

export const file_name = job => (String(job.name || 'job').replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 60) || 'job');
