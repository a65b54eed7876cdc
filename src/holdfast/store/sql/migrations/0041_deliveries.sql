-- Receivers that a tenant has named, to which events are sent by HTTP. secret signs what is sent; former_secret signs it
-- too until former_secret_until, so that a receiver can change over. disabled_at: nothing is sent until a person enables
-- it again.
create table webhooks (
    tenant text not null,
    name text not null,
    url text not null,
    events text[] not null,
    secret text not null,
    former_secret text,
    former_secret_until timestamptz,
    created_at timestamptz not null default now(),
    created_by text not null,
    disabled_at timestamptz,
    disabled_reason text,
    primary key (tenant, name),
    constraint a_disabled_webhook_has_a_reason check ((disabled_at is null) = (disabled_reason is null))
);

-- What a tenant has settled for what is sent: the domains to which mails may go, and the secret that signs callbacks.
create table notify_settings (
    tenant text not null,
    mail_domains text[] not null default '{}',
    secret text,
    former_secret text,
    former_secret_until timestamptz,
    primary key (tenant)
);

-- One row for each event and receiver; its id is what the receiver sees at each try. A mail has the events of several
-- rows: head_id names the row that stands for the mail, whose status its others share. next_at: when it may be tried; of
-- one that a process is trying (holder), when another may take it. due_since: since when it is tried. destination: what
-- fails together, such as a webhook, the host of callbacks, or the mail server.
create table deliveries (
    delivery_id uuid not null default gen_random_uuid(),
    number bigint not null generated always as identity,
    outbox_id bigint not null,
    tenant text not null,
    job_id uuid,
    kind text not null,
    receiver text not null,
    destination text not null,
    status text not null,
    head_id uuid,
    holder uuid,
    tries int not null default 0,
    next_at timestamptz not null default now(),
    due_since timestamptz not null default now(),
    created_at timestamptz not null default now(),
    ended_at timestamptz,
    answer int,
    error text,
    primary key (delivery_id),
    constraint an_event_goes_to_a_receiver_once unique (outbox_id, receiver),
    constraint delivery_status_is_known check (status in ('gathering', 'waiting', 'sent', 'dead'))
);
create index deliveries_to_send on deliveries (tenant, destination, next_at) where status = 'waiting';
create index deliveries_in_flight on deliveries (tenant, destination) where holder is not null;
create index deliveries_to_gather on deliveries (tenant, job_id, receiver) where status = 'gathering';
create index deliveries_in_order on deliveries (job_id, receiver, outbox_id) where status = 'waiting';
create index deliveries_by_mail on deliveries (head_id) where head_id is not null;
create index deliveries_by_tenant on deliveries (tenant, number desc);
create index deliveries_by_time on deliveries using brin (created_at);

-- The mails of a job to a recipient, which follow each other: since when the last one is on its way, and the delivery
-- that stands for the first.
create table mail_threads (
    tenant text not null,
    thread text not null,
    receiver text not null,
    mailed_at timestamptz,
    first_id uuid,
    created_at timestamptz not null default now(),
    primary key (tenant, thread, receiver)
);

-- Destinations that fail: since when, how often in a row, and until when none is tried. Those that work have no row.
create table failing_destinations (
    tenant text not null,
    destination text not null,
    failing_since timestamptz not null default now(),
    failures int not null default 1,
    held_until timestamptz,
    primary key (tenant, destination)
);
