// The server's JSON API.

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.answer = error.answer;  // of a job that no plan fits: why
  }
}

async function refused(response) {
  let error = {message: `the server answered ${response.status}`};
  try {
    error = (await response.json()).error;
  } catch {
    // no JSON: the status has to do
  }
  return new Refused(response.status, error);
}

async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw await refused(response);
  return response.json();
}

export const list = () => get('api/list');

const question = (body, signal, accept) => ({
  method: 'POST', body: JSON.stringify(body), signal,
  headers: {'Content-Type': 'application/json', Accept: accept},
});

// Asks a command about a job. `watch` gets {progress} and {warning} while it searches; when `signal` aborts, the
// search ends.
export async function ask(command, body, {signal, watch = () => {}} = {}) {
  const response = await fetch('api/' + command, question(body, signal, 'application/x-ndjson'));
  if (!response.ok) throw await refused(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = '';;) {
    const {done, value} = await reader.read();
    if (done) throw new Error('the server went away');
    const lines = (held + value).split('\n');
    held = lines.pop();
    for (const line of lines.map(text => JSON.parse(text))) {
      if (line.error) throw new Refused(line.error.status, line.error);
      if ('answer' in line) return line.answer;
      watch(line);
    }
  }
}

// A file that a command writes.
export async function file(command, job, signal) {
  const response = await fetch('api/' + command, question(job, signal, '*/*'));
  if (!response.ok) throw await refused(response);
  return response.text();
}
