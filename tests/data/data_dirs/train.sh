# A quadratic with its best value 0 at x = 3. The trial whose number is WAIT_AT_TRIAL does not end.
if [ "$CLOUD_ML_TRIAL_ID" = "${WAIT_AT_TRIAL:-}" ]; then exec tail -f /dev/null; fi
awk -v x="${1#--x=}" 'BEGIN { printf "loss=%.17g step=1\n", (x - 3) * (x - 3) }'
