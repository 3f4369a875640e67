/* Error messages for the user, which say what to do. A described error has `kind`: down, broken, key,
 * context, loading, busy or server. Pure functions. */

class ServerError extends Error {
  constructor(kind, text) {
    super(text);
    this.name = 'ServerError';
    this.kind = kind;
  }
}

/* No response at all, or (begun) a response that ended early. */
export function connectionError(begun) {
  return begun
    ? new ServerError('broken', 'The connection to the server broke. What had arrived is kept; Continue generates the rest.')
    : new ServerError('down', 'The server cannot be reached. Check that it is running, then try again.');
}

const sentence = (s) => {
  const t = s.charAt(0).toUpperCase() + s.slice(1);
  return /[.!?]$/.test(t) ? t : t + '.';
};

/* body: the parsed JSON of the response, or null. */
export function responseError(status, body) {
  const e = body?.error;
  const said = typeof e === 'string' ? e : typeof e?.message === 'string' ? e.message : '';
  if (status === 401) return new ServerError('key', 'The server wants an API key. Enter it in the settings.');
  if (e?.type === 'exceed_context_size_error') {
    const size = e.n_prompt_tokens && e.n_ctx ? ` It has ${e.n_prompt_tokens} tokens and the context holds ${e.n_ctx}.` : '';
    return new ServerError('context', `The conversation no longer fits in the model's context.${size} Delete earlier messages, or start a new conversation.`);
  }
  if (status === 429) return new ServerError('busy', 'The server is busy: too many requests are waiting. Try again in a moment.');
  if (status === 503 && /load/.test(said)) return new ServerError('loading', 'The model is loading.');
  if (status === 404 && /model/.test(said)) return new ServerError('server', sentence(said));
  return new ServerError('server', said ? sentence(said) : `The server answered with status ${status}.`);
}

/* For errors that do not come from the server. */
export function plainError(e) {
  return e instanceof ServerError ? { kind: e.kind, text: e.message } : { kind: 'page', text: `The page failed: ${e.message}` };
}
