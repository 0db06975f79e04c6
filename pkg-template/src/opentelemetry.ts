/** A conversation's events as spans, in OpenTelemetry's semantic conventions for generative AI. */

import {
  type Attributes,
  type Context,
  context,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { RoundtableEvent, RunResult } from './types.js';
import type { SettledUsageRecord, UsageRecord } from './usage-types.js';

/**
 * An observer that traces: a span `invoke_workflow` for each run, in it `invoke_agent` for each attempt at a turn, and
 * in that `chat` for each model call. Pass it as `onEvent`, or give it what `followConversation` yields; one may
 * serve any number of conversations. Times are those of the events. Spans hold ids, models, token counts and
 * outcomes; content, reasons and messages of errors may be private and are left out. What has not ended when its run
 * ends, ends with it.
 *
 * @param tracer of any OpenTelemetry SDK
 */
export function traceEvents(tracer: Tracer): (event: RoundtableEvent) => void {
  const runs = new Map<string, RunTrace>();
  return (event) => {
    if (event.runId === undefined || event.type === 'delta') return;
    const key = JSON.stringify([event.conversationId, event.runId]);
    if (event.type === 'run-started') runs.set(key, new RunTrace(tracer, event));
    const run = runs.get(key);
    if (event.type === 'run-ended') {
      runs.delete(key);
      run?.end(event.result, new Date(event.at));
    } else run?.take(event);
  };
}

/** An open span and where its children belong. */
interface Node {
  span: Span;
  inside: Context;
}

/** The spans of one run. */
class RunTrace {
  readonly #tracer: Tracer;
  readonly #conversation: Attributes;
  readonly #run: Node;
  /** By turn: it has one attempt at a time. */
  readonly #attempts = new Map<string, Node>();
  readonly #calls = new Map<string, Node>();

  constructor(tracer: Tracer, { conversationId, at }: RoundtableEvent) {
    this.#tracer = tracer;
    this.#conversation = { 'gen_ai.conversation.id': conversationId };
    this.#run = this.#open(context.active(), 'invoke_workflow', at, { 'gen_ai.operation.name': 'invoke_workflow' });
  }

  take(event: RoundtableEvent): void {
    const time = new Date(event.at);
    switch (event.type) {
      case 'turn-started': {
        const { turnId, attemptId, participantId } = event;
        this.#attempts.get(turnId)?.span.end(time);
        const attempt = this.#open(this.#run.inside, `invoke_agent ${participantId}`, event.at, {
          'gen_ai.operation.name': 'invoke_agent',
          'gen_ai.agent.name': participantId,
          'agent_roundtable.turn.id': turnId,
          'agent_roundtable.attempt.id': attemptId,
        });
        this.#attempts.set(turnId, attempt);
        break;
      }
      case 'prepared':
        this.#endAttempt(event.turnId, 'settled', time);
        break;
      case 'turn-stopped':
        this.#endAttempt(event.turnId, event.reason, time);
        break;
      case 'requested':
        for (const { turnId } of event.requests) this.#endAttempt(turnId, 'waiting', time);
        break;
      case 'usage':
        this.#takeCall(event.record, event.at);
        break;
    }
  }

  end(result: RunResult, time: Date): void {
    const failed = result.status === 'failed';
    for (const { span } of this.#calls.values()) span.end(time);
    for (const { span } of this.#attempts.values()) {
      // A turn that fails has no event of its own: what is open when a run fails is why it did.
      if (failed) fail(span, result.code);
      span.end(time);
    }
    const { span } = this.#run;
    const reason = result.status === 'limited' ? { 'agent_roundtable.limit': result.reason } : {};
    span.setAttributes({ 'agent_roundtable.status': result.status, ...reason });
    if (failed) fail(span, result.code);
    span.end(time);
  }

  #takeCall(record: UsageRecord, at: string): void {
    const { callId, providerId, modelId, turnId, principal } = record;
    let call = this.#calls.get(callId);
    if (call === undefined) {
      const parent = (turnId === null ? undefined : this.#attempts.get(turnId)) ?? this.#run;
      const attributes = {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': providerId,
        'gen_ai.request.model': modelId,
        'gen_ai.agent.name': principal.id,
      };
      call = this.#open(parent.inside, `chat ${modelId}`, at, attributes, SpanKind.CLIENT);
      this.#calls.set(callId, call);
    }
    if (record.status === 'reserved' || !call.span.isRecording()) return;
    call.span.setAttributes(usageAttributes(record));
    if (record.outcome === 'failed') fail(call.span);
    if (record.final) call.span.end(new Date(at));
  }

  #endAttempt(turnId: string, outcome: string, time: Date): void {
    const attempt = this.#attempts.get(turnId);
    if (attempt === undefined) return;
    this.#attempts.delete(turnId);
    attempt.span.setAttribute('agent_roundtable.outcome', outcome);
    attempt.span.end(time);
  }

  #open(parent: Context, name: string, at: string, attributes: Attributes, kind = SpanKind.INTERNAL): Node {
    const options = { kind, startTime: new Date(at), attributes: { ...this.#conversation, ...attributes } };
    const span = this.#tracer.startSpan(name, options, parent);
    return { span, inside: trace.setSpan(parent, span) };
  }
}

function usageAttributes({ tokens = {}, outcome, provenance, price }: SettledUsageRecord): Attributes {
  const attributes: Attributes = {
    'agent_roundtable.outcome': outcome,
    'agent_roundtable.usage.provenance': provenance,
  };
  const counts = {
    'gen_ai.usage.input_tokens': tokens.input,
    'gen_ai.usage.output_tokens': tokens.output,
    'gen_ai.usage.cache_read.input_tokens': tokens.cacheRead,
    'gen_ai.usage.cache_creation.input_tokens': tokens.cacheWrite,
    'gen_ai.usage.reasoning.output_tokens': tokens.reasoning,
  };
  for (const [name, count] of Object.entries(counts)) if (count !== undefined) attributes[name] = count;
  const cost = price?.cost;
  if (cost) attributes['agent_roundtable.cost'] = `${cost.minorUnits} ${cost.currency}`;
  return attributes;
}

/** `_OTHER` is what the conventions say where no type is known. */
function fail(span: Span, type = '_OTHER'): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
