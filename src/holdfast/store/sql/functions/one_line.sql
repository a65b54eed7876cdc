-- A failure in one line that fits a screen; null if there is none.
create function one_line(code text, message text) returns text language sql immutable as $$
    select case when length(w.words) > 100 then left(w.words, 99) || '…' else nullif(w.words, '') end
    from (select concat_ws(': ', nullif(code, ''), trim(regexp_replace(message, '\s+', ' ', 'g'))) as words) w
$$;
