// Package emulator is an outside payment company in a box. It speaks enough of
// Stripe's HTTP API that an unmodified Stripe client cannot tell the difference
// for the calls that a card payment needs: create and confirm a PaymentIntent,
// retrieve, list and search it, refund it, and verify the webhooks about it.
//
// # What it promises
//
//   - One idempotency key executes at most once while it is remembered. The first
//     executed result is saved, declines and 500s included, and every repeat gets
//     the saved bytes. A repeat with other parameters, or of another endpoint, is
//     refused. A repeat while the first is executing is refused with 409.
//   - A key is forgotten [Config].KeyMemory after its first use, judged when it is
//     read. From then on a repeat is a new request, and charges again.
//   - Charges and refunds, and finding them by id, metadata or listing, are kept forever.
//   - All refunds of a charge that have not failed are together never more than the
//     charge. One that fails counts as not given back from then on.
//   - A listing shows at once what was done, newest first, and is a total order.
//   - Every webhook is delivered until its receiver says 2xx: at least once.
//   - With a [Journal], whatever was answered, or done without an answer, survives
//     the death of the process.
//
// # What it does not promise
//
//   - Anything of Stripe that is not listed here. An endpoint or a parameter that
//     it does not know is refused. Some that it knows change nothing here: off_session,
//     error_on_requires_action, return_url, receipt_email, statement_descriptor_suffix,
//     automatic_payment_methods and payment_method_types are accepted, part of the key's
//     parameters, and ignored, since no card here needs its owner; expand is, on refunds.
//   - Order of webhooks, or that a webhook comes once.
//   - That search shows a charge at once: [Config].SearchLag.
//   - That a refund that has succeeded stays so: a bank may send the money back
//     ([FailLater]), as after Stripe's test card 4000000000005126.
//   - Faults, request counts and the numbers of requests live in memory and die with the
//     process; the numbers start again at req_1.
//
// # What a crash leaves behind
//
//   - Before the journal has the record: nothing happened, the key is unused.
//   - After it, before the answer: the effect stands; a repeat of the key gets the
//     saved answer; the webhooks are due.
//   - After a webhook was delivered, before that was recorded: it is sent again.
//
// # Shape
//
// [Core] is the company without a network: method calls, a clock that is handed
// in, ids derived from keys, no goroutine and no lock held while it waits. A
// simulator drives it through [Direct]. [NewHandler] puts Stripe's HTTP on top.
// [Core.RunOnce] is the step that delivers webhooks.
//
// Sources: Stripe's API reference on idempotent requests, errors, PaymentIntents,
// refunds, pagination, search ("data freshness"), webhook events and signatures.
package emulator
